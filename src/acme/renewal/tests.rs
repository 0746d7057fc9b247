//! Certificates that are loaded, obtained and renewed, or not.

use super::super::LETS_ENCRYPT;
use super::*;
use crate::runtime::block_on;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A chain and its key, for these names, valid from so many days after today on to so many.
fn issued(names: &[&str], from: i64, to: i64) -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params =
        rcgen::CertificateParams::new(names.iter().map(|name| name.to_string()).collect::<Vec<_>>()).unwrap();
    let moment = |days: i64| match days >= 0 {
        true => SystemTime::now() + DAY * days as u32,
        false => SystemTime::now() - DAY * days.unsigned_abs() as u32,
    };
    (params.not_before, params.not_after) = (moment(from).into(), moment(to).into());
    format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

/// The renewal of a certificate for two names, which has one already.
fn renewal(folder: Option<&std::path::Path>) -> Renewal {
    let settings = Settings::new(LETS_ENCRYPT, ["a.example", "b.example"]).unwrap();
    let settings = Settings { folder: folder.map(Into::into), on_report: Some(Arc::new(|_| {})), ..settings };
    let folder = Folder::open(&settings).unwrap();
    let first = issued(&["a.example", "b.example"], -1, 5);
    let tls = ServerTls::new(Identity::from_pem(&first, &first).unwrap());
    let is_ready = Arc::new(watch::Sender::new(false));
    Renewal::new(settings, folder, tls, Arc::default(), is_ready)
}

#[test]
fn a_certificate_that_cannot_serve_is_not_shown() {
    let both = ["a.example", "b.example"];
    let (one, other) = (issued(&both, -1, 89), issued(&both, -1, 89));
    let of_another_key = [&one[..one.find("-----BEGIN PRIVATE").unwrap()], &other].concat();
    let of_another_key = of_another_key.replace(other.split("-----BEGIN PRIVATE").next().unwrap(), "");
    for (text, expected) in [
        (issued(&["c.example", "d.example"], -1, 89), "the certificate has not all of the names"),
        (issued(&["a.example"], -1, 89), "the certificate has not all of the names"),
        (issued(&["*.example"], -1, 89), "the certificate has not all of the names"),
        // The clock of this machine, or that of the authority, is a year off.
        (issued(&both, 365, 455), "the certificate cannot be used"),
        (issued(&both, -455, -365), "the certificate cannot be used"),
        (issued(&both, 1, -1), "the certificate cannot be used"),
        (of_another_key, "the certificate cannot be used"),
        (String::new(), "the certificate cannot be used"),
        (one[..one.len() / 2].to_owned(), "the certificate cannot be used"),
    ] {
        let mut renewal = renewal(None);
        let before = renewal.tls.not_after();
        assert_eq!(renewal.show(&text).unwrap_err().to_string(), expected, "{text}");
        assert_eq!(renewal.tls.not_after(), before);
        assert!(renewal.current.is_none() && !*renewal.is_ready.borrow());
        renewal.show(&one).unwrap();
        assert!(renewal.tls.not_after() > before && *renewal.is_ready.borrow());
    }
}

/// With a clock that is a year behind, a new certificate would be of no use; with one that is ahead, it is asked for.
#[test]
fn a_clock_that_is_off_keeps_what_is_in_the_folder() {
    let both = ["a.example", "b.example"];
    for (text, expected) in [
        (issued(&both, -1, 89), Ok(true)),
        (issued(&both, 365, 455), Err("the certificate cannot be used".to_owned())),
        (issued(&both, -455, -365), Ok(false)),
        (issued(&["c.example"], -1, 89), Ok(false)),
        ("nonsense".to_owned(), Ok(false)),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut renewal = renewal(Some(folder.path()));
        renewal.folder.as_ref().unwrap().set_certificate(&text).unwrap();
        for expected in [expected.clone(), expected.map(|_| false)] {
            assert_eq!(renewal.load().map_err(|error| error.to_string()), expected, "{text}");
        }
        assert_eq!(renewal.folder.as_ref().unwrap().certificate().unwrap(), Some(text));
    }
}

/// As on a full disk.
#[test]
fn a_certificate_that_could_not_be_written_is_written_at_the_next_step() {
    let at = tempfile::tempdir().unwrap();
    let folder = at.path().join("acme");
    let mut renewal = renewal(Some(&folder));
    let text = issued(&["a.example", "b.example"], -1, 89);
    renewal.show(&text).unwrap();
    renewal.unwritten = Some(text.clone());
    std::fs::remove_dir(&folder).unwrap();
    block_on(renewal.step()).unwrap().unwrap_err();
    std::fs::create_dir(&folder).unwrap();
    block_on(renewal.step()).unwrap().unwrap();
    assert_eq!(renewal.folder.as_ref().unwrap().certificate().unwrap(), Some(text));
    assert!(renewal.unwritten.is_none() && !renewal.load().unwrap(), "it is not loaded again");
}

#[test]
fn a_third_of_its_time_is_left_when_a_certificate_is_renewed() {
    let day = Duration::from_secs(24 * 60 * 60);
    let now = SystemTime::now();
    for days in [6, 45, 90] {
        let left = (now + day * days).duration_since(due(now, now + day * days)).unwrap();
        assert!((day * days / 3..=day * days * 35 / 100).contains(&left), "{days}: {left:?}");
    }
    assert!(due(now, now - day) <= now, "dates without sense are no panic");
}

/// An authority that revokes certificates moves their windows into the past.
#[test]
fn a_new_certificate_is_renewed_when_the_authority_asks_rfc9773_4_2() {
    let (now, hour) = (SystemTime::now(), DAY / 24);
    let mut renewal = renewal(None);
    for (days, put_off, at_window) in [(90, 45 * DAY, 6 * hour), (6, 3 * DAY, 6 * hour)] {
        renewal.show(&issued(&["a.example", "b.example"], -1, days)).unwrap();
        let current = renewal.current.as_mut().unwrap();
        current.put_off(now);
        assert!(current.until_due(now).unwrap() + hour > put_off, "{days} days");
        let past = RenewalWindow { start: now - 2 * DAY, end: now - DAY, asked_again_after: hour };
        current.move_into(&past);
        assert!(current.until_due(now).unwrap() <= at_window, "{days} days");
        assert!(current.until_due(now + at_window + hour).is_none());
    }
    // One of a clock that is wrong is due at once, and still put off.
    let current = renewal.current.as_mut().unwrap();
    current.due = now - DAY;
    current.put_off(now);
    assert!(current.until_due(now).unwrap() > 2 * DAY);
}

#[test]
fn failures_are_tried_again_less_and_less_often() {
    let day = Duration::from_secs(24 * 60 * 60);
    let minutes = |left| Vec::from_iter((1..14).map(|failures| back_off(failures, left).as_secs() / 60));
    assert_eq!(minutes(30 * day), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440]);
    assert_eq!(minutes(day)[8..], [256, 360, 360, 360, 360]);
    assert_eq!(minutes(Duration::ZERO)[5..8], [32, 60, 60]);
    assert_eq!(back_off(u32::MAX, Duration::MAX), BACK_OFF_MAX);
}
