//! Handshakes of this client with this server, in memory: which certificates are trusted (RFC 8446, RFC 9110 §4.3.4).

use std::future::poll_fn;
use std::io::{ErrorKind, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};

use self::certificates::{Authority, Issued, self_signed};
use super::{
    ClientTls, ConfigError, HostName, Identity, Roots, ServerTls, Session, TlsAcceptor, TlsConnector, Version,
};
use crate::net::tls::Error;
use crate::net::{Stream, Transport};

#[path = "../../../../tests/it/support/certificates.rs"]
#[allow(unreachable_pub, dead_code, reason = "the tests over sockets use it too")]
mod certificates;

fn identity(issued: &Issued) -> Identity {
    Identity::from_pem(&issued.chain, &issued.key).unwrap()
}

fn roots(authority: &Authority) -> Roots {
    Roots::from_pem(authority.pem()).unwrap()
}

/// The client's end, which may be sent to another thread.
type Near = Transport<Pin<Box<dyn Stream + Send>>>;

const _: () = {
    const fn may_be_sent<T: Send>() {}
    may_be_sent::<Near>();
};

/// How the handshake ends for the client and for the server.
async fn shake(
    server: &ServerTls,
    client: &ClientTls,
    host: &str,
) -> (Result<Near, Error>, Result<Transport, Error>) {
    meet(&server.acceptor(), &client.connector(), host).await
}

async fn meet(
    acceptor: &TlsAcceptor,
    connector: &TlsConnector,
    host: &str,
) -> (Result<Near, Error>, Result<Transport, Error>) {
    let (near, far) = duplex(1 << 16);
    let mut handshake = acceptor.accept(Transport::Memory(far.into()));
    let host = HostName::new(host).unwrap();
    let near = async {
        let stream = connector.connect(host, Near::Memory(near.into())).await?;
        Ok(Near::Tls(Box::new(stream)))
    };
    let far = async {
        let stream = poll_fn(|cx| handshake.poll(cx).map_err(|(error, _)| error)).await?;
        Ok(Transport::Tls(Box::new(stream)))
    };
    tokio::join!(near, far)
}

fn session(far: &Transport) -> Arc<Session> {
    far.tls_session().expect("the handshake has made it secure")
}

/// The error of a handshake with its cause, or `ok`.
fn outcome<T>(end: Result<T, Error>) -> String {
    match end {
        Ok(_) => "ok".into(),
        Err(error) => format!("{error}: {}", std::error::Error::source(&error).unwrap()),
    }
}

#[tokio::test]
async fn a_host_has_to_prove_that_it_is_the_one() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let deputy = ours.deputy("deputy");
    let mut behind_deputy = deputy.issue(&["a.example"]);
    let unlinked = identity(&behind_deputy);
    behind_deputy.chain.push_str(&deputy.pem());
    let distrusted = "the peer's certificate is not trusted: ";
    for (host, shown, expected) in [
        ("a.example", identity(&ours.issue(&["a.example"])), ""),
        ("A.Example.", identity(&ours.issue(&["a.example"])), ""),
        ("a.example", identity(&ours.issue(&["b.example", "a.example"])), ""),
        ("a.b.example", identity(&ours.issue(&["*.b.example"])), ""),
        ("a.example", identity(&behind_deputy), ""),
        ("127.0.0.1", identity(&ours.issue(&["127.0.0.1"])), ""),
        ("[::1]", identity(&ours.issue(&["::1"])), ""),
        ("b.example", identity(&ours.issue(&["a.example"])), "not valid for name"),
        ("b.example", identity(&ours.issue(&["*.b.example"])), "not valid for name"),
        ("a.example", identity(&ours.issue(&["*.example"])), "not valid for name"),
        ("c.a.b.example", identity(&ours.issue(&["*.b.example"])), "not valid for name"),
        ("a.example.evil", identity(&ours.issue(&["a.example"])), "not valid for name"),
        ("127.0.0.1", identity(&ours.issue(&["127.0.0.2", "localhost"])), "not valid for name"),
        ("[::1]", identity(&ours.issue(&["::2"])), "not valid for name"),
        ("a.example", identity(&ours.issue_for_years(&["a.example"], 2000, 2010)), "expired"),
        ("a.example", identity(&ours.issue_for_years(&["a.example"], 4000, 4010)), "not valid yet"),
        ("a.example", identity(&theirs.issue(&["a.example"])), "UnknownIssuer"),
        ("a.example", unlinked, "UnknownIssuer"),
        ("a.example", identity(&self_signed(&["a.example"])), "UnknownIssuer"),
    ] {
        let server = ServerTls::new(shown.clone());
        let client = ClientTls::new().roots(roots(&ours));
        let (near, far) = shake(&server, &client, host).await;
        let near = outcome(near);
        match expected {
            "" => assert_eq!((near.as_str(), outcome(far).as_str()), ("ok", "ok"), "{host} {shown:?}"),
            expected => {
                assert!(near.starts_with(distrusted) && near.contains(expected), "{host} {shown:?}: {near}");
                assert!(matches!(far, Err(Error::Refused(_))), "{host} {shown:?}: {}", outcome(far));
            }
        }
        let (near, _) = shake(&server, &client.dangerous().accept_any_certificate(), host).await;
        assert_eq!(outcome(near), "ok", "{host} {shown:?}");
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_root_is_not_trusted() {
    let server = ServerTls::new(identity(&Authority::new("ours").issue(&["a.example"])));
    for client in [
        ClientTls::new(),
        ClientTls::new().roots(Roots::from_webpki().and(roots(&Authority::new("another")))),
    ] {
        let (near, _) = shake(&server, &client, "a.example").await;
        assert!(matches!(near, Err(Error::Certificate(_))), "{client:?}");
    }
}

#[tokio::test]
async fn client_certificates_are_asked_for_or_required() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = || ServerTls::new(identity(&ours.issue(&["a.example"])));
    let client = || ClientTls::new().roots(roots(&ours));
    let good = identity(&ours.issue(&["me"]));
    let stranger = identity(&theirs.issue(&["me"]));
    let late = identity(&ours.issue_for_years(&["me"], 2000, 2010));
    let (asking, requiring) =
        (|| server().client_auth_optional(roots(&ours)), || server().client_auth_required(roots(&ours)));
    for (server, shown, expected) in [
        (server(), None, Ok(0)),
        (server(), Some(&good), Ok(0)),
        (server(), Some(&stranger), Ok(0)),
        (asking(), None, Ok(0)),
        (asking(), Some(&good), Ok(1)),
        (asking(), Some(&stranger), Err("UnknownIssuer")),
        (asking(), Some(&late), Err("expired")),
        (requiring(), None, Err("no certificates")),
        (requiring(), Some(&good), Ok(1)),
        (requiring(), Some(&stranger), Err("UnknownIssuer")),
        (requiring(), Some(&late), Err("expired")),
    ] {
        let client = shown.iter().fold(client(), |client, shown| client.identity(Identity::clone(shown)));
        let (near, far) = shake(&server, &client, "a.example").await;
        match expected {
            Ok(count) => assert_eq!(session(&far.unwrap()).certificates.len(), count, "{server:?} {shown:?}"),
            Err(expected) => {
                let told = outcome(far);
                assert!(told.contains("is not trusted") && told.contains(expected), "{told}");
                // In TLS 1.3 the client finds the alert with its first read.
                let received = near.unwrap().read_u8().await.unwrap_err();
                assert!(received.to_string().contains("received fatal alert"), "{received}");
            }
        }
    }
}

#[tokio::test]
async fn roots_are_replaced_and_sessions_with_them() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let server = ServerTls::new(identity(&ours.issue(&["a.example"])));
    let connector = |shown: &Authority| {
        let client = ClientTls::new().roots(roots(&ours)).identity(identity(&shown.issue(&["me"])));
        client.connector()
    };
    let (old, new) = (connector(&ours), connector(&theirs));
    for asks in [
        ServerTls::client_auth_optional as fn(ServerTls, Roots) -> ServerTls,
        ServerTls::client_auth_required,
    ] {
        let server = asks(server.clone(), roots(&ours));
        let acceptor = server.acceptor();
        let mut ends = Vec::new();
        for (connector, replaced) in
            [(&old, None), (&old, None), (&new, None), (&old, Some(&theirs)), (&new, None), (&new, None)]
        {
            replaced.iter().for_each(|authority| server.clone().replace_roots(roots(authority)));
            let (near, far) = meet(&acceptor, connector, "a.example").await;
            ends.push(match far {
                Ok(mut far) => {
                    // Tickets come with the first bytes.
                    far.write_all(b"x").await.unwrap();
                    far.flush().await.unwrap();
                    assert_eq!(near.unwrap().read_u8().await.unwrap(), b'x');
                    if session(&far).resumed { "resumed" } else { "ok" }
                }
                Err(_) => "refused",
            });
        }
        assert_eq!(ends, ["ok", "resumed", "refused", "refused", "ok", "resumed"]);
    }
    server.replace_roots(roots(&theirs));
    let (_, far) = meet(&server.acceptor(), &old, "a.example").await;
    assert_eq!(session(&far.unwrap()).certificates.len(), 0, "nobody is asked");
}

/// A server that was started with one handle must not show the certificate that was set on another.
#[test]
fn an_added_identity_is_for_one_handle_alone() {
    let one = ServerTls::new(identity(&self_signed(&["a.example"])));
    let two = one.clone().and_identity(identity(&self_signed(&["b.example"])));
    let shows = |tls: &ServerTls| ["a.example", "b.example"].map(|name| format!("{tls:?}").contains(name));
    assert_eq!((shows(&one), shows(&two)), ([true, false], [true, true]));
    two.clone().replace_identities([identity(&self_signed(&["a.example"]))]).unwrap();
    assert_eq!((shows(&one), shows(&two)), ([true, false], [true, false]));
}

#[tokio::test]
async fn an_end_without_close_notify_is_an_error() {
    let authority = Authority::new("ours");
    let server = ServerTls::new(identity(&authority.issue(&["a.example"])));
    let client = ClientTls::new().roots(roots(&authority));
    for (says_so, expected) in [(true, Ok(5)), (false, Err(ErrorKind::UnexpectedEof))] {
        let (near, far) = shake(&server, &client, "a.example").await;
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        far.write_all(b"hello").await.unwrap();
        far.flush().await.unwrap();
        if says_so {
            far.shutdown().await.unwrap();
        }
        drop(far);
        let mut received = Vec::new();
        let end = near.read_to_end(&mut received).await;
        assert_eq!((received.as_slice(), end.map_err(|error| error.kind())), (&b"hello"[..], expected));
    }
}

#[tokio::test]
async fn sessions_are_resumed_in_the_newest_version() {
    let authority = Authority::new("ours");
    let server = ServerTls::new(identity(&authority.issue(&["a.example"]))).version_min(Version::Tls13);
    let acceptor = server.acceptor();
    let connector = ClientTls::new().roots(roots(&authority)).version_min(Version::Tls13).connector();
    for resumed in [false, true, true] {
        let (near, far) = meet(&acceptor, &connector, "a.example").await;
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        let expected = Session {
            version: Version::Tls13,
            cipher_suite: "TLS13_AES_256_GCM_SHA384",
            key_exchange: Some("X25519"),
            alpn: Some(b"http/1.1".to_vec()),
            resumed,
            server_name: Some("a.example".into()),
            certificates: vec![],
        };
        assert_eq!(*session(&far), expected);
        // Tickets come with the first bytes.
        far.write_all(b"x").await.unwrap();
        far.flush().await.unwrap();
        assert_eq!(near.read_u8().await.unwrap(), b'x');
    }
}

/// Tickets are no unexpected response. But a server that never stops sending them must not occupy the client's thread.
#[tokio::test]
async fn a_connection_stays_quiet_under_some_tickets_but_not_under_many() {
    let authority = Authority::new("ours");
    let server = ServerTls::new(identity(&authority.issue(&["a.example"])));
    let connector = ClientTls::new().roots(roots(&authority)).connector();
    for (tickets, is_quiet_in_runtime) in [(0, true), (2, true), (20, true), (200, false)] {
        let (near, far) = duplex(1 << 24);
        let mut config = server.config();
        config.send_tls13_tickets = tickets;
        let host = HostName::new("a.example").unwrap();
        let (near, far) = tokio::join!(
            connector.connect(host, Near::Memory(near.into())),
            tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(far)
        );
        let mut near = Near::Tls(Box::new(near.unwrap()));
        assert_eq!(near.is_quiet_in_runtime(), is_quiet_in_runtime, "{tickets} tickets");
        // The first bytes of content arrive after the tickets.
        let mut far = far.unwrap();
        far.write_all(b"hello").await.unwrap();
        far.flush().await.unwrap();
        assert!(!near.is_quiet_in_runtime());
    }
}

/// A client that computes between two requests must not drop a good connection because of records without content.
#[tokio::test]
async fn a_connection_stays_quiet_while_records_without_content_arrive() {
    let authority = Authority::new("ours");
    let connector = ClientTls::new().roots(roots(&authority)).connector();
    let mut config = ServerTls::new(identity(&authority.issue(&["a.example"]))).config();
    config.send_tls13_tickets = 0;
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    for (said, ends, is_quiet_in_kernel) in [("", false, true), ("hello", false, false), ("", true, false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let host = HostName::new("a.example").unwrap();
        let (near, far) = tokio::join!(connector.connect(host, Near::Tcp(near.into())), acceptor.accept(far));
        let mut near = Near::Tls(Box::new(near.unwrap()));
        let mut far = far.unwrap();
        assert!(near.is_quiet_in_kernel());
        // All records leave at once (RFC 8446 §4.6.3).
        let (_, tls) = far.get_mut();
        tls.refresh_traffic_keys().unwrap();
        tls.writer().write_all(said.as_bytes()).unwrap();
        if ends {
            tls.send_close_notify();
        }
        far.flush().await.unwrap();
        let waits = || thread::sleep(Duration::from_millis(1));
        while !near.has_kernel_input() {
            waits();
        }
        assert_eq!(near.is_quiet_in_kernel(), is_quiet_in_kernel, "{said:?}, {ends}");
        // An end without an alert is noticed, too.
        drop(far);
        while near.is_quiet_in_kernel() {
            waits();
        }
    }
}

#[tokio::test]
async fn a_peer_that_speaks_no_tls_is_distinguished_from_one_that_leaves() {
    let connector = ClientTls::new().connector();
    for said in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "220 mail.example ESMTP\r\n",
        "\0\0\0\0\0",
        "\x16\x03\x03",
        "\x15\x03\x03\0\x02\x02\x28",
        "",
    ] {
        let (near, mut far) = duplex(1 << 16);
        far.write_all(said.as_bytes()).await.unwrap();
        far.shutdown().await.unwrap();
        let end = connector.connect(HostName::new("a.example").unwrap(), Near::Memory(near.into())).await;
        let expected = match said {
            "" | "\x16\x03\x03" => "Io",
            "\x15\x03\x03\0\x02\x02\x28" => "Refused",
            "\0\0\0\0\0" => "Protocol",
            _ => "PlainText",
        };
        assert!(format!("{:?}", end.err().unwrap()).starts_with(expected), "{said:?}");
    }
}

#[test]
fn a_host_has_to_be_one_that_a_certificate_can_be_for() {
    for (host, expected) in [
        ("example.org", "DnsName(\"example.org\")"),
        ("EXAMPLE.org.", "DnsName(\"example.org\")"),
        ("xn--bcher-kva.example", "DnsName(\"xn--bcher-kva.example\")"),
        ("localhost", "DnsName(\"localhost\")"),
        ("127.0.0.1", "IpAddress(V4(Ipv4Addr([127, 0, 0, 1])))"),
    ] {
        assert_eq!(format!("{:?}", HostName::new(host).unwrap()), format!("HostName({expected})"), "{host}");
    }
    for same in ["[0:0:0:0:0:0:0:1]", "::1"] {
        assert_eq!(HostName::new("[::1]").unwrap(), HostName::new(same).unwrap());
    }
    for host in [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a b",
        "a/b",
        "a:443",
        "[]",
        "[::1",
        "::1]",
        "[127.0.0.1]",
        "[a]",
        "[fe80::1%25eth0]",
        "127.0.0.1.2",
        "1.2.3",
        "127.1",
        "256.1.1.1",
        "0x7f.0.0.1",
        "bücher.example",
        "a%2e",
        "*.example.org",
        "-a.example",
        "a\0",
        "a\r\n",
        "a@b",
    ] {
        assert!(matches!(HostName::new(host), Err(Error::Host)), "{host:?}");
    }
}

#[test]
fn an_invalid_identity_is_refused() {
    let (one, other) = (self_signed(&["a.example"]), self_signed(&["a.example"]));
    let both = format!("{}{}", one.key, one.chain);
    // A key on one line, as many keep it in a variable. The error must not contain the key.
    let line: String = one.key.lines().collect();
    let first_last = format!("{}{}", other.chain, one.chain);
    let old_way = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAA==\n\
                   -----END EC PRIVATE KEY-----\n";
    for (chain, key, expected) in [
        (&one.chain, &line, "Err(Pem(\"a section does not end with a line of its own\"))"),
        (&one.chain, &line[..100].into(), "Err(Pem(\"a section does not begin with a line of its own\"))"),
        (&one.chain, &one.key, "Ok"),
        (&both, &both, "Ok"),
        (&one.chain, &other.key, "Err(Key(\"it belongs to another certificate\"))"),
        (&first_last, &one.key, "Err(Certificate(\"it is not the first of its chain"),
        (&one.chain, &old_way.to_owned(), "Err(Key(\"it is encrypted: decrypt"),
        (&one.key, &one.key, "Err(NoCertificate)"),
        (&one.chain, &one.chain, "Err(NoKey)"),
        (&String::new(), &one.key, "Err(NoCertificate)"),
        (&one.chain, &String::new(), "Err(NoKey)"),
        (&one.chain, &one.key.replace("PRIV", "ENCRYPTED PRIV"), "Err(Key(\"it is encrypted: decrypt"),
        (
            &one.chain,
            &one.key.replace("PRIV", "OPENSSH PRIV"),
            "Err(Key(\"it is of the kind `OPENSSH PRIVATE KEY`",
        ),
        (&one.chain, &one.key.replace("PRIVATE", "PUBLIC"), "Err(Key(\"it is of the kind `PUBLIC KEY`"),
        (
            &one.chain.replace("CERTIFICATE", "TRUSTED CERTIFICATE"),
            &one.key,
            "Err(Certificate(\"it is of the kind `TRUSTED CERTIFICATE`",
        ),
        (&one.chain.replace("-----END", "----END"), &one.key, "Err(Pem"),
        (&one.chain, &one.key.replace("MIG", "!IG"), "Err(Pem"),
        (&one.chain.replacen("MIIB", "AIIB", 1), &one.key, "Err(Certificate"),
        (&one.chain, &one.key.replace("MIG", "AIG"), "Err(Key"),
    ] {
        let made = format!("{:?}", Identity::from_pem(chain, key));
        assert!(made.starts_with(expected), "{made} for {expected}");
    }
    for (der, kind) in [
        (&[0x30, 0x82, 0xff][..], "it is DER: "),
        (&[0x30, 0x82, 0x04, 0xff, 0x02, 0x01, 0x03, 0x30, 0x82], "it is PKCS #12: "),
    ] {
        for error in [Identity::from_pem(der, der).unwrap_err(), Roots::from_pem(der).unwrap_err()] {
            assert!(
                matches!(&error, ConfigError::Pem(why) if why.to_string().starts_with(kind)),
                "{error:?} for {kind}"
            );
        }
    }
    let missing = Identity::from_files("/no/such/file", "/no/such/file").unwrap_err();
    assert!(matches!(&missing, ConfigError::File(..)) && missing.to_string().contains("/no/such/file"));
    assert!(matches!(Identity::from_der([], Vec::new()), Err(ConfigError::NoKey)));
    assert!(matches!(ServerTls::new(identity(&one)).replace_identities([]), Err(ConfigError::NoCertificate)));
}

#[test]
fn the_names_of_an_identity_are_shown_and_its_key_is_not() {
    let issued = self_signed(&["A.example", "*.b.example", "127.0.0.1"]);
    assert_eq!(identity(&issued).names(), ["a.example", "*.b.example"]);
    let shown = format!("{:?}", ServerTls::new(identity(&issued)).and_identity(identity(&issued)));
    assert!(shown.contains("a.example") && shown.len() < 400, "{shown}");
}

#[test]
fn roots_without_a_certificate_are_refused() {
    let (one, other) = (Authority::new("ours"), Authority::new("theirs"));
    let both = Roots::from_pem(one.pem() + &other.pem()).unwrap();
    assert_eq!(both.store.len(), 2);
    assert_eq!(roots(&one).and(roots(&other)).store.roots, both.store.roots);
    assert!(Roots::from_webpki().store.len() > 50);
    for (text, expected) in [
        (String::new(), "NoCertificate"),
        ("root".into(), "NoCertificate"),
        (self_signed(&[]).key, "NoCertificate"),
        (one.pem().replace("-----END", "----END"), "Pem"),
        (one.pem().replacen("MIIB", "AIIB", 1), "Certificate"),
    ] {
        let error = Roots::from_pem(&text).unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{error:?} for {text}");
    }
}
