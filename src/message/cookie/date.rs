//! [`parse`]: dates as they occur in `Set-Cookie` (RFC 6265bis §5.1.1).

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use crate::message::{decimal, month_number};

/// The time that `text` denotes, in any of the formats that servers use.
///
/// A time, a day, a month and a year are searched for among its words, in any order. Other words are ignored, including
/// the time zone, which is always GMT.
pub(super) fn parse(text: &[u8]) -> Option<SystemTime> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for word in text.split(is_delimiter) {
        // A word is the first of these that is still missing, in this order.
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

    /// `date` is read as `expected`, in seconds since 1970.
    #[track_caller]
    fn check(text: &str, expected: Option<i64>) {
        let seconds = parse(text.as_bytes()).map(|time| match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => after.as_secs() as i64,
            Err(before) => -(before.duration().as_secs() as i64),
        });
        assert_eq!(seconds, expected, "{text:?}");
    }

    #[test]
    fn dates_are_read_in_any_order_rfc6265bis_5_1_1() {
        let same = Some(784_111_777);
        check("Sun, 06 Nov 1994 08:49:37 GMT", same);
        check("Sunday, 06-Nov-94 08:49:37 GMT", same);
        check("Sun Nov  6 08:49:37 1994", same);
        check("Sun, 6-Nov-1994 8:49:37", same);
        check("08:49:37 6 November 1994 +0200 PST", same);
        check("NOVEMBER 06th 94 08:49:37.123", same);
        check("\t1994/Nov/06;08:49:37", same);
        check("06/Nov/1994;08:49:37Z", same);
        check("Sun, 06 Nov 1994 08:49:37 GMT 07 Dec 1995 01:02:03", same);
    }

    #[test]
    fn the_calendar_is_gregorian() {
        check("1 Jan 1970 00:00:00", Some(0));
        check("31 Dec 1969 23:59:59", Some(-1));
        check("1 Jan 1601 0:0:0", Some(-11_644_473_600));
        check("29 Feb 2000 00:00:00", Some(951_782_400));
        check("29 Feb 2024 12:00:00", Some(1_709_208_000));
        check("31 Dec 9999 23:59:59", Some(253_402_300_799));
        check("1 Jan 69 00:00:00", Some(3_124_224_000));
        check("1 Jan 70 00:00:00", Some(0));
        check("19 Jan 2038 03:14:08", Some(1 << 31));
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
        bad.iter().for_each(|text| check(text, None));
        assert_eq!(parse(b"1 Jan 1970 00:00:00 \xff"), Some(SystemTime::UNIX_EPOCH));
    }
}
