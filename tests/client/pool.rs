//! Connections are used again, and never when they must not be.

use corehttp::{Client, Request, Response};

use crate::support::Scripted;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn one_connection_serves_one_exchange_after_another() {
    let server = Scripted::always(OK).await;
    let (client, mut response) = (Client::new(), Response::new());
    let request = Request::get(&server.url).unwrap();
    for _ in 0..100 {
        client.send(&request, &mut response).await.unwrap();
        assert_eq!((response.status.as_u16(), response.body.bytes()), (200, &b"ok"[..]));
    }
    assert_eq!((server.connections(), client.idle(), client.busy()), (1, 1, 0));
    assert!(response.timings().reused);
}

/// 10,000 exchanges with a server that closes each connection whenever it likes give 10,000 answers and no error.
#[tokio::test]
async fn who_closes_connections_at_random_is_never_noticed() {
    const EXCHANGES: usize = 10_000;
    let server = Scripted::new(|mut peer, number| async move {
        for _ in 0..=number * 7919 % 13 {
            if peer.request().await?.is_none() {
                return Ok(());
            }
            peer.say(OK).await?;
        }
        Ok(())
    })
    .await;
    let (client, request) = (Client::new(), Request::get(&server.url).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, request) = (client.clone(), request.clone());
        tasks.spawn(async move {
            let mut response = Response::new();
            for _ in 0..EXCHANGES / 8 {
                client.send(&request, &mut response).await.unwrap();
                assert_eq!(response.body.bytes(), b"ok");
            }
        });
    }
    tasks.join_all().await;
    assert!(server.connections() > 500, "{} connections", server.connections());
}
