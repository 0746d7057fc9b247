//! [`HttpDate`]: dates in fields (RFC 9110 §5.6.7) and in cookies (RFC 6265bis §5.1.1).

use std::fmt;
use std::io::Write;
use std::ops::RangeInclusive;
use std::str;
use std::time::{Duration, SystemTime};

use super::from_text::decimal;

/// A time in a field, to the second: an IMF-fixdate (RFC 9110 §5.6.7), such as `Sun, 06 Nov 1994 08:49:37 GMT`.
///
/// [`Headers::set_date`](crate::Headers::set_date) and [`Headers::date`](crate::Headers::date) write and read a field that
/// is a date. This type is for other places. Neither allocates.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use corehttp::HttpDate;
///
/// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
/// assert_eq!(HttpDate::new(time).as_str(), "Sun, 06 Nov 1994 08:49:37 GMT");
/// assert_eq!(HttpDate::parse("Sunday, 06-Nov-94 08:49:37 GMT"), Some(time));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HttpDate([u8; HttpDate::LEN]);

impl HttpDate {
    const LEN: usize = 29;

    /// Makes the date of `time`. A time before 1970 or after the year 9999 becomes the nearest one that can be expressed.
    pub fn new(time: SystemTime) -> HttpDate {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let representable = SystemTime::UNIX_EPOCH + since_epoch.min(LAST_SECOND);
        let mut text = [0; HttpDate::LEN];
        write!(&mut text[..], "{}", httpdate::HttpDate::from(representable))
            .expect("an IMF-fixdate has 29 bytes");
        debug_assert!(text.is_ascii() && text.ends_with(b" GMT"), "the date fills its 29 bytes");
        HttpDate(text)
    }

    /// Reads a date in any of the three formats of RFC 9110 §5.6.7: an IMF-fixdate, an RFC 850 date or an asctime date.
    /// `None` for anything else, and for a time that does not exist.
    pub fn parse(date: impl AsRef<[u8]>) -> Option<SystemTime> {
        httpdate::parse_http_date(str::from_utf8(date.as_ref()).ok()?).ok()
    }

    /// Returns the date as text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("an IMF-fixdate is ASCII")
    }

    /// The date as logs have it (RFC 3339 §5.6): `1994-11-06T08:49:37Z`.
    pub(crate) fn to_rfc3339(self) -> String {
        let text = self.as_str();
        let month = month_number(&self.0[8..]).unwrap_or_default();
        format!("{}-{month:02}-{}T{}Z", &text[12..16], &text[5..7], &text[17..25])
    }
}

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpDate({self})")
    }
}

/// Fri, 31 Dec 9999 23:59:59 GMT
const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799);

/// The number of the month, from 1, whose English name shares its first three letters with `word`, in any case.
pub(crate) fn month_number(word: &[u8]) -> Option<u32> {
    let name = word.get(..3)?;
    let months = b"jan feb mar apr may jun jul aug sep oct nov dec".split(|&octet| octet == b' ');
    months.zip(1..).find(|(month, _)| month.eq_ignore_ascii_case(name)).map(|(_, number)| number)
}

/// The time that `text` denotes, in any of the formats that servers use.
///
/// A time, a day, a month and a year are searched for among its words, in any order. Other words are ignored, including
/// the time zone, which is always GMT.
pub(crate) fn parse_cookie_date(text: &[u8]) -> Option<SystemTime> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for word in text.split(is_delimiter) {
        // Each word is read as the first of these that is still missing, in this order.
        let _ = read_if_missing(&mut time, || time_of_day(word))
            || read_if_missing(&mut day, || number(word, 1..=2))
            || read_if_missing(&mut month, || month_number(word))
            || read_if_missing(&mut year, || number(word, 2..=4));
    }
    let year = match year? {
        year @ 70..=99 => year + 1900,
        year @ 0..=69 => year + 2000,
        year => year,
    };
    let seconds = days(year, month?, day?)? * 86_400 + seconds(time?)?;
    let distance = Duration::from_secs(seconds.unsigned_abs());
    match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(distance),
        _ => SystemTime::UNIX_EPOCH.checked_sub(distance),
    }
}

fn is_delimiter(octet: &u8) -> bool {
    matches!(octet, 0x09 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e)
}

/// Reads a part that is still missing. Returns whether it was found.
fn read_if_missing<T>(missing: &mut Option<T>, read: impl FnOnce() -> Option<T>) -> bool {
    if missing.is_some() {
        return false;
    }
    *missing = read();
    missing.is_some()
}

/// The seconds of an age (RFC 9111 §1.2.2), rounded up from milliseconds: rounded down, half a second would be 0, which
/// removes a cookie.
pub(crate) fn delta_seconds(age: Duration) -> u64 {
    age.as_secs().saturating_add((age.subsec_millis() > 0).into())
}

/// A number of that many digits, followed by the end or by anything that does not begin with a digit.
fn number(word: &[u8], digits: RangeInclusive<usize>) -> Option<u32> {
    let len = word.iter().take_while(|octet| octet.is_ascii_digit()).count();
    if !digits.contains(&len) {
        return None;
    }
    decimal(&word[..len])?.try_into().ok()
}

/// The fields of `8:49:37`.
fn time_of_day(word: &[u8]) -> Option<[u32; 3]> {
    let mut fields = word.splitn(3, |&octet| octet == b':');
    let (hour, minute, second) = (fields.next()?, fields.next()?, fields.next()?);
    let is_whole = |field: &[u8]| field.iter().all(u8::is_ascii_digit);
    if !is_whole(hour) || !is_whole(minute) {
        return None;
    }
    Some([number(hour, 1..=2)?, number(minute, 1..=2)?, number(second, 1..=2)?])
}

/// The seconds since midnight, if there is such a time.
fn seconds([hour, minute, second]: [u32; 3]) -> Option<i64> {
    let is_real = hour <= 23 && minute <= 59 && second <= 59;
    is_real.then(|| ((hour * 60 + minute) * 60 + second).into())
}

/// The days since 1970, if there is such a day since 1601, as the Gregorian calendar counts.
fn days(year: u32, month: u32, day: u32) -> Option<i64> {
    debug_assert!((1..=12).contains(&month), "months are read by name");
    let is_leap = year.is_multiple_of(if year.is_multiple_of(100) { 400 } else { 4 });
    let month_len = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year < 1601 || !(1..=month_len).contains(&day) {
        return None;
    }
    // If years begin in March, the leap day is at their end, and every five months have 153 days.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_year = year * 365 + year / 4 - year / 100 + year / 400;
    let before_month = (month * 153 + 2) / 5;
    Some(i64::from(before_year + before_month + day - 1) - DAYS_BEFORE_1970)
}

/// From 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(date: &str, expected: Option<u64>) {
        let seconds =
            HttpDate::parse(date).map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
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
        assert_eq!(HttpDate::parse(b"Sun, 06 Nov 1994 08:49:37 GM\xff"), None);
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
        assert_eq!(HttpDate::new(millis).as_str(), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(HttpDate::new(epoch - year).as_str(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(HttpDate::new(epoch + 10_000 * year).as_str(), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    /// `date` is read as `expected`, in seconds since 1970.
    #[track_caller]
    fn check_cookie(text: &str, expected: Option<i64>) {
        let seconds = parse_cookie_date(text.as_bytes()).map(|time| {
            match time.duration_since(SystemTime::UNIX_EPOCH) {
                Ok(after) => after.as_secs() as i64,
                Err(before) => -(before.duration().as_secs() as i64),
            }
        });
        assert_eq!(seconds, expected, "{text:?}");
    }

    #[test]
    fn dates_are_read_in_any_order_rfc6265bis_5_1_1() {
        let same = Some(784_111_777);
        check_cookie("Sun, 06 Nov 1994 08:49:37 GMT", same);
        check_cookie("Sunday, 06-Nov-94 08:49:37 GMT", same);
        check_cookie("Sun Nov  6 08:49:37 1994", same);
        check_cookie("Sun, 6-Nov-1994 8:49:37", same);
        check_cookie("08:49:37 6 November 1994 +0200 PST", same);
        check_cookie("NOVEMBER 06th 94 08:49:37.123", same);
        check_cookie("\t1994/Nov/06;08:49:37", same);
        check_cookie("06/Nov/1994;08:49:37Z", same);
        check_cookie("Sun, 06 Nov 1994 08:49:37 GMT 07 Dec 1995 01:02:03", same);
    }

    #[test]
    fn the_calendar_is_gregorian() {
        check_cookie("1 Jan 1970 00:00:00", Some(0));
        check_cookie("31 Dec 1969 23:59:59", Some(-1));
        check_cookie("1 Jan 1601 0:0:0", Some(-11_644_473_600));
        check_cookie("29 Feb 2000 00:00:00", Some(951_782_400));
        check_cookie("29 Feb 2024 12:00:00", Some(1_709_208_000));
        check_cookie("31 Dec 9999 23:59:59", Some(253_402_300_799));
        check_cookie("1 Jan 69 00:00:00", Some(3_124_224_000));
        check_cookie("1 Jan 70 00:00:00", Some(0));
        check_cookie("19 Jan 2038 03:14:08", Some(1 << 31));
    }

    #[test]
    fn a_malformed_date_is_none_rfc6265bis_5_1_1() {
        let bad = [
            "",
            "0",
            "-1",
            "never",
            "Sun",
            "1 Jan 1970",
            "00:00:00",
            "1 Jan 00:00:00",
            "Jan 1970 00:00:00",
            "1 1970 00:00:00",
            "0 Jan 1970 00:00:00",
            "32 Jan 1970 00:00:00",
            "31 Apr 1970 00:00:00",
            "30 Feb 2000 00:00:00",
            "29 Feb 2023 00:00:00",
            "29 Feb 1900 00:00:00",
            "1 Jan 1600 00:00:00",
            "1 Jan 10000 00:00:00",
            "1 Jan 1970 24:00:00",
            "1 Jan 1970 00:60:00",
            "1 Jan 1970 00:00:60",
            "1 Jan 1970 00:00",
            "1 Jan 1970 000:00:00",
            "1 Jan 1970 00:00x:00",
            "1 Jan 1970 +0:-1:00",
            "1 Foo 1970 00:00:00",
            "001 Jan 1970 00:00:00",
            "784111777",
            "1 J\u{e4}n 1970 00:00:00",
        ];
        bad.iter().for_each(|text| check_cookie(text, None));
        assert_eq!(parse_cookie_date(b"1 Jan 1970 00:00:00 \xff"), Some(SystemTime::UNIX_EPOCH));
    }
}
