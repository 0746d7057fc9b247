//! Responses with faults that devices make: a strict client refuses them, a lenient one overlooks those that leave no doubt
//! about where the response ends (RFC 9112 §2.2, §5, §7.1).

use std::io;

use corehttp::client::{ClientCause, Proxies, Proxy};
use corehttp::{Client, ClientError, Context, Request, Response, Server, Status};
use tokio::net::TcpListener;

use crate::support::{OK, Stage, ask, get};

/// A server that gives each request this response, cut at `cut`.
fn device(response: &str, cut: usize) -> Stage {
    let response = response.to_owned();
    Stage::new(move |mut peer, _| {
        let response = response.clone();
        async move {
            while peer.request().await?.is_some() {
                peer.send_cut(&response, cut).await?;
            }
            io::Result::Ok(())
        }
    })
}

fn lenient(stage: &Stage) -> Client {
    stage.builder().lenient(true).build()
}

/// Checks that a strict client refuses `response`, and that a lenient one takes it with this content, wherever it is cut,
/// and then dials again.
async fn check(response: &str, content: &str) {
    for cut in 0..response.len() {
        let stage = device(response, cut);
        assert!(ask(&stage.client(), &get()).await.is_err(), "{response:?} cut at {cut}");
        let stage = device(response, cut);
        let client = lenient(&stage);
        for dials in 1..=2 {
            let taken = ask(&client, &get()).await.map_err(|error| format!("{error:#}"));
            assert_eq!(taken, Ok((200, content.into())), "{response:?} cut at {cut}");
            assert_eq!(stage.dialed().len(), dials, "{response:?} cut at {cut}");
        }
        assert_eq!(
            (client.idle_connections(), client.busy_connections()),
            (0, 0),
            "{response:?} cut at {cut}"
        );
    }
}

/// Checks that clients of both kinds refuse `response`.
async fn check_refused(response: &str) {
    for cut in 0..response.len() {
        for client in [device(response, cut).client(), lenient(&device(response, cut))] {
            let error = ask(&client, &get()).await.unwrap_err();
            assert!(
                matches!(error.cause(), ClientCause::Exchange(_)),
                "{response:?} cut at {cut}: {error:#}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_may_end_without_cr_rfc9112_2_2() {
    check("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "ok").await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nok", "ok").await;
    check("HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok", "ok").await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok", "ok").await;
    check("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nok\n0\n\n", "ok").await;
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n", "ok").await;
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\na: b\n\r\n", "ok").await;
    check("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok").await;
}

#[tokio::test(start_paused = true)]
async fn equal_lengths_are_one_rfc9110_8_6() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", "ok").await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", "ok").await;
}

#[tokio::test(start_paused = true)]
async fn blanks_may_follow_a_chunk_size_rfc9112_7_1() {
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2  \r\nok\r\n0\r\n\r\n", "ok").await;
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\t\r\n\r\n", "ok").await;
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_none_is_left_out_rfc9112_5_1() {
    for line in
        ["Server Model: 7", "Server : x", "no colon", "Date: \x01", "X\x7f: y", " Folded: 1", "X: a\rb"]
    {
        check(&format!("HTTP/1.1 200 OK\r\n{line}\r\nContent-Length: 2\r\n\r\nok"), "ok").await;
        check(&format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\na b: c\r\n{line}\r\n\r\nok"), "ok").await;
    }
    let stage = device("HTTP/1.1 200 OK\na b: 1\nc: 2\nd: \0\ne: 3\n f\n\n", 0);
    let response = lenient(&stage).get("http://a/").await;
    // Without a length, the body ends with the connection, which this server keeps open.
    assert!(response.is_err_and(|error| error.is_timeout()));
    let stage = device("HTTP/1.1 204 x\na b: 1\nc: 2\nd: \0\ne: 3\n f\n\n", 0);
    let response = lenient(&stage).get("http://a/").await.unwrap();
    let fields: Vec<_> = response.headers.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    assert_eq!((response.headers.len(), response.headers.get("c")), (2, Some("2")), "{fields:?}");
    assert!(response.headers.get("e").is_some_and(|value| value.starts_with("3 ") && value.ends_with('f')));
}

#[tokio::test(start_paused = true)]
async fn whatever_frames_a_response_stays_strict_rfc9112_6_3() {
    for fields in [
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2, 3",
        "Content-Length: 2,",
        "Content-Length: +2",
        "Content-Length : 2",
        "Content-Length: 2\0",
        "Content-Length 2",
        "Content-Length: 2\r\n folded",
        " Content-Length: 2",
        "a: b\rContent-Length: 2",
        "Transfer-Encoding: chunked\r\nContent-Length: 2",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity",
    ] {
        check_refused(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n2\r\nok\r\n0\r\n\r\n")).await;
        check_refused(&format!("HTTP/1.1 200 OK\n{fields}\n\n2\nok\n0\n\n")).await;
    }
    for body in
        ["+2\r\nok\r\n0\r\n\r\n", " 2\r\nok\r\n0\r\n\r\n", "2 2\r\nok\r\n0\r\n\r\n", "2\r\nokok\r\n", "2\rok"]
    {
        check_refused(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}")).await;
    }
    for head in ["HTTP/1.1  200 OK", "HTTP/1.1 20 OK", "HTTP/2 200 OK", "\n\nHTTP/1.1 200 OK", "200 OK"] {
        check_refused(&format!("{head}\nContent-Length: 0\n\n")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_limits_hold_for_what_is_left_out() {
    let lines = |count| format!("HTTP/1.1 200 OK\n{}Content-Length: 0\n\n", "a\n".repeat(count));
    for (response, is_taken) in [
        (lines(127), true),
        (lines(128), false),
        (format!("HTTP/1.1 200 OK\na {}\n\n", "b".repeat(70 << 10)), false),
        (format!("HTTP/1.1 200 OK\n{}", "a".repeat(70 << 10)), false),
    ] {
        let stage = device(&response, 20);
        assert_eq!(ask(&lenient(&stage), &get()).await.is_ok(), is_taken, "{}", response.len());
    }
}

/// Leniency that is not needed costs nothing: the connection is used again.
#[tokio::test(start_paused = true)]
async fn a_connection_without_faults_is_used_again() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nx: y\r\n\r\n";
    for response in [OK, chunked] {
        let stage = device(response, response.len() / 2);
        let client = lenient(&stage);
        for _ in 0..3 {
            assert_eq!(ask(&client, &get()).await.unwrap(), (200, "ok".into()));
        }
        assert_eq!(stage.dialed().len(), 1, "{response:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_takes_another_connection_after_a_fault() {
    for response in [
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n",
    ] {
        let stage = device(response, 5);
        let pipeline = lenient(&stage).pipeline("http://a").unwrap().build();
        for dials in 1..=3 {
            let mut response = Response::new();
            pipeline.send(&Request::get("/").unwrap(), &mut response).await.unwrap();
            assert_eq!((response.text().unwrap(), stage.dialed().len()), ("ok", dials));
        }
    }
}

/// A peer might understand the response otherwise, so nothing of it is passed on (RFC 9112 §11.2).
#[tokio::test(start_paused = true)]
async fn a_gateway_cannot_be_lenient() {
    for response in [OK, "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"] {
        let client = lenient(&device(response, 0));
        let service = Server::new().service(async move |ctx: &mut Context| {
            let onward = ctx.request.forwarded_to("http://b")?;
            let forwarded = ctx.forward(client.open_call(&onward)).await;
            let told = forwarded.as_ref().unwrap_err().to_string();
            assert!(told.contains("a lenient client must not forward"), "{told}");
            forwarded
        });
        let answered = service.respond(Request::get("/").unwrap()).await;
        assert_eq!(answered.status, Status::INTERNAL_SERVER_ERROR);
    }
}

/// A proxy decides what reaches the server, so it is read strictly.
#[tokio::test]
async fn the_response_of_a_proxy_to_connect_stays_strict() -> io::Result<()> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let proxy = format!("http://{}", listener.local_addr()?);
    let serves = async {
        let (mut stream, _) = listener.accept().await?;
        let _ = stream.read(&mut [0; 1024]).await?;
        stream.write_all(b"HTTP/1.1 200 OK\n\n").await
    };
    let client = Client::builder().lenient(true).proxies(Proxies::all(Proxy::new(&proxy).unwrap()));
    let client = client.build();
    let asks = async {
        let mut request = Request::get("http://a/").unwrap();
        request.headers.set("upgrade", "x").unwrap();
        let refused: Result<_, ClientError> = client.upgrade(&request, &mut Response::new()).await;
        assert!(refused.is_err_and(|error| matches!(error.cause(), ClientCause::Exchange(_))));
    };
    tokio::join!(serves, asks).0
}
