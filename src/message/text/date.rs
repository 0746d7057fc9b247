//! [`ImfDate`]: dates as messages carry them (RFC 9110 §5.6.7).

use std::io::Write;
use std::str;
use std::time::{Duration, SystemTime};

use httpdate::HttpDate;

/// A time to the second as an IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImfDate([u8; ImfDate::LEN]);

impl ImfDate {
    const LEN: usize = 29;

    /// The date of `time`. A time before 1970 or after the year 9999 becomes the nearest one that can be expressed.
    pub(crate) fn new(time: SystemTime) -> ImfDate {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let sayable = SystemTime::UNIX_EPOCH + since_epoch.min(LAST_SECOND);
        let mut text = [0; ImfDate::LEN];
        write!(&mut text[..], "{}", HttpDate::from(sayable)).expect("an IMF-fixdate has 29 bytes");
        ImfDate(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("an IMF-fixdate is ASCII")
    }
}

/// Fri, 31 Dec 9999 23:59:59 GMT
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// The time that an IMF-fixdate, an RFC 850 date or an asctime date denotes.
pub(crate) fn parse(date: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(str::from_utf8(date).ok()?).ok()
}

/// The number of the month, from 1, whose English name shares its first three letters with `word`, in any case.
pub(crate) fn month_number(word: &[u8]) -> Option<u32> {
    let name = word.get(..3)?;
    let months = b"jan feb mar apr may jun jul aug sep oct nov dec".split(|&octet| octet == b' ');
    months.zip(1..).find(|(month, _)| month.eq_ignore_ascii_case(name)).map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(date: &str, expected: Option<u64>) {
        let seconds =
            parse(date.as_bytes()).map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(seconds, expected, "{date:?}");
    }

    #[test]
    fn all_three_forms_of_a_date_are_read_rfc9110_5_6_7() {
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(LAST_SECOND.as_secs()));
    }

    #[test]
    fn any_other_form_is_no_date_rfc9110_5_6_7() {
        check("", None);
        check("784111777", None);
        check("Sun, 06 Nov 1994 08:49:37", None);
        check("Sun, 06 Nov 1994 08:49:37 CET", None);
        check("Mon, 06 Nov 1994 08:49:37 GMT", None);
        check("Sun, 6 Nov 1994 08:49:37 GMT", None);
        check("Sun, 06 Nov 1994 24:00:00 GMT", None);
        check("Sun, 06 Nov 1994 08:60:00 GMT", None);
        check("Fri, 31 Feb 1995 08:49:37 GMT", None);
        check("Sun, 00 Nov 1994 08:49:37 GMT", None);
        check("Wed, 31 Dec 1969 23:59:59 GMT", None);
        check("Sun, 06 Nov 1994 08:49:37 GMT, x", None);
        check("Sun, 06 Nov +994 08:49:37 GMT", None);
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:37 GM\xff"), None);
    }

    #[test]
    fn months_are_recognized_by_three_letters() {
        for (name, number) in [("Jan", 1), ("NOV", 11), ("december", 12), ("mayfly", 5)] {
            assert_eq!(month_number(name.as_bytes()), Some(number), "{name}");
        }
        for name in ["", "Ja", "01", "Jän", "xjan", " ja", "j n"] {
            assert_eq!(month_number(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn any_time_can_be_written() {
        let epoch = SystemTime::UNIX_EPOCH;
        let year = Duration::from_secs(366 * 86_400);
        let millis = epoch + Duration::from_millis(784_111_777_999);
        assert_eq!(ImfDate::new(millis).as_str(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(ImfDate::new(epoch - year).as_str(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(ImfDate::new(epoch + 10_000 * year).as_str(), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
