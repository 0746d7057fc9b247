//! [`Validity`]: from when until when a certificate is valid (RFC 5280 §4.1.2.5).

use std::time::{Duration, SystemTime};

/// The time in which a certificate is valid. Both ends are part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: SystemTime,
    pub(super) not_after: SystemTime,
}

impl Validity {
    /// Reads it from a certificate. `None` if it is not where it should be, or is no time since 1970.
    ///
    /// The crate webpki reads it as well, but has no function that returns it.
    pub(super) fn from_der(certificate: &[u8]) -> Option<Validity> {
        let mut rest = certificate;
        let mut signed = element(&mut rest, SEQUENCE)?;
        let mut fields = element(&mut signed, SEQUENCE)?;
        // The version may be absent, as it is in version 1.
        let _ = element(&mut fields, VERSION);
        element(&mut fields, INTEGER)?;
        for _signature_and_issuer in 0..2 {
            element(&mut fields, SEQUENCE)?;
        }
        let mut times = element(&mut fields, SEQUENCE)?;
        let validity = Validity { not_before: time(&mut times)?, not_after: time(&mut times)? };
        times.is_empty().then_some(validity)
    }
}

/// The tags of X.690 §8 and of the version in RFC 5280 §4.1.
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// Takes the content of the element at the front of `input`, if it has this tag (X.690 §8.1).
fn element<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&[found, len], rest) = input.split_first_chunk()?;
    // A first octet above 127 counts the octets of the length. A certificate is shorter than 16 MiB.
    let (len, rest) = match len {
        0..=0x7f => (usize::from(len), rest),
        0x81..=0x83 => {
            let (octets, rest) = rest.split_at_checked(usize::from(len & 0x7f))?;
            (octets.iter().fold(0, |len, octet| len << 8 | usize::from(*octet)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    if found != tag {
        return None;
    }
    *input = rest;
    Some(content)
}

/// Takes a time, whose years have two digits until 2049 and four after that (RFC 5280 §4.1.2.5).
fn time(input: &mut &[u8]) -> Option<SystemTime> {
    let text = match element(input, UTC_TIME) {
        Some(text) if *text.first()? >= b'5' => [b"19", text].concat(),
        Some(text) => [b"20", text].concat(),
        None => element(input, GENERALIZED_TIME)?.to_vec(),
    };
    let digits = text.strip_suffix(b"Z")?;
    if digits.len() != "20491231235959".len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let [century, year, month, day, hour, minute, second] = [0, 2, 4, 6, 8, 10, 12]
        .map(|at| digits[at..at + 2].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')));
    let is_real =
        (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let days = days(century * 100 + year, month, day).filter(|_| is_real)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(((days * 24 + hour) * 60 + minute) * 60 + second))
}

/// The days from 1970 to a day of the Gregorian calendar. `None` if it is earlier.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // If years begin in March, the leap day is at their end, and every five months have 153 days.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let before_year = year * 365 + year / 4 - year / 100 + year / 400;
    let before_month = (month * 153 + 2) / 5;
    (before_year + before_month + day).checked_sub(DAYS_BEFORE_1970 + 1)
}

/// From 1 March of the year 0 to 1 January 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tag: u8, text: &str, expected: Option<u64>) {
        let der = [&[tag, text.len() as u8], text.as_bytes()].concat();
        let read = time(&mut &der[..]);
        assert_eq!(
            read,
            expected.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
            "{text}"
        );
    }

    #[test]
    fn a_year_has_two_digits_until_2049_rfc5280_4_1_2_5() {
        check(UTC_TIME, "700101000000Z", Some(0));
        check(UTC_TIME, "941106084937Z", Some(784_111_777));
        check(UTC_TIME, "491231235959Z", Some(2_524_607_999));
        check(UTC_TIME, "240229000000Z", Some(1_709_164_800));
        check(GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000));
        check(GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799));
        for text in [
            "691231235959Z",
            "941306084937Z",
            "940006084937Z",
            "941100084937Z",
            "941132084937Z",
            "941106084937",
            "941106084937+",
            "",
            "Z",
        ] {
            check(UTC_TIME, text, None);
        }
        for text in [
            "941106240000Z",
            "941106086000Z",
            "9411060849Z",
            "941106084937+0100",
            "9411 6084937Z",
            "941106084960Z",
            "+41106084937Z",
        ] {
            check(UTC_TIME, text, None);
        }
        check(GENERALIZED_TIME, "20500101000000.5Z", None);
        check(GENERALIZED_TIME, "19691231235959Z", None);
        check(INTEGER, "941106084937Z", None);
    }

    #[test]
    fn a_certificate_that_is_cut_or_spoiled_has_none() {
        let mut params = rcgen::CertificateParams::new(["a.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2024, 2, 29);
        params.not_after = rcgen::date_time_ymd(2124, 2, 29);
        let made = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let der = made.der().to_vec();
        let validity = Validity::from_der(&der).unwrap();
        let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(
            [validity.not_before, validity.not_after].map(seconds),
            [1_709_164_800, 1_709_164_800 + 36_524 * 86_400]
        );
        (0..der.len()).for_each(|len| assert_eq!(Validity::from_der(&der[..len]), None, "{len} octets"));
        for at in 0..der.len() {
            for octet in [0, 0x30, 0x7f, 0x80, 0x83, 0xff] {
                let mut spoiled = der.clone();
                spoiled[at] = octet;
                let _ = Validity::from_der(&spoiled);
            }
        }
    }
}
