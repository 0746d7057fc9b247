//! Middleware of a client: ids, signatures for AWS, and a record of what was sent.
//!
//! `cargo run --release --features signed --example signed -- SERVICE REGION URL`, with `AWS_ACCESS_KEY_ID` and
//! `AWS_SECRET_ACCESS_KEY` in the environment, prints what the URL answers, and each attempt on standard error.

use std::env;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use corehttp::client::{Attempt, ClientMiddleware, ClientNext, Retry};
use corehttp::{Client, ClientBuilder, ClientError};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [service, region, url] = &*arguments else { return Err("usage: signed SERVICE REGION URL".into()) };
    let (key, secret) = (env::var("AWS_ACCESS_KEY_ID")?, env::var("AWS_SECRET_ACCESS_KEY")?);
    let signature = Signature::new(service, region, Credentials::new(key, secret, None, None, "environment"));
    let recorder = Recorder::default();
    let client = client(Client::builder(), signature, recorder.clone());
    let answered = corehttp::block_on(client.get(url))?;
    for attempt in recorder.take() {
        eprintln!("{attempt}");
    }
    println!("{}", answered?.error_for_status()?.text()?);
    Ok(())
}

/// A client whose requests pass through the recorder, get an id, and are signed last, so that the signature covers all of it.
fn client(builder: ClientBuilder, signature: Signature, recorder: Recorder) -> Client {
    builder.retry(Retry::new()).wrap(recorder).wrap(identify).wrap(signature).build()
}

/// Tells the attempts at a request apart in the logs of the server.
fn identify(attempt: &mut Attempt<'_>) -> Result<(), ClientError> {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().map_err(ClientError::other)?;
    let id = format!("{:x}-{}", since_epoch.as_nanos(), attempt.number());
    Ok(attempt.request.headers.set("x-request-id", id)?)
}

/// Signs requests with version 4 of AWS' signatures.
struct Signature {
    service: String,
    region: String,
    credentials: Credentials,
    /// The time that is signed.
    now: fn() -> SystemTime,
}

impl Signature {
    fn new(service: &str, region: &str, credentials: Credentials) -> Signature {
        Signature { service: service.into(), region: region.into(), credentials, now: SystemTime::now }
    }

    /// The fields that sign the request of `attempt`.
    fn fields(&self, attempt: &Attempt<'_>) -> Result<Vec<(String, String)>, Box<dyn Error + Send + Sync>> {
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let identity = self.credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time((self.now)())
            .settings(settings)
            .build()?;
        let (method, url) = (attempt.request.method().to_string(), attempt.url());
        let fields = attempt
            .request
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name, std::str::from_utf8(value).ok()?)));
        let body = SignableBody::Bytes(attempt.request.body.bytes());
        let request = SignableRequest::new(&method, &url, fields, body)?;
        let (signed, _) = sign(request, &params.into())?.into_parts();
        Ok(signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

impl ClientMiddleware for Signature {
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        if attempt.is_cross_origin() {
            return next.send(attempt).await; // a redirect has led elsewhere
        }
        for (name, value) in self.fields(attempt).map_err(ClientError::other)? {
            attempt.request.headers.set(&name, value)?;
        }
        next.send(attempt).await
    }
}

/// Records what was sent, and what came of it.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ClientMiddleware for Recorder {
    async fn call(&self, attempt: &mut Attempt<'_>, next: ClientNext<'_>) -> Result<(), ClientError> {
        let (request, began) = (format!("{} {}", attempt.request.method(), attempt.url()), Instant::now());
        let sent = next.send(attempt).await;
        let outcome = match (&sent, attempt.response()) {
            (Ok(()), Some(response)) => response.status.to_string(),
            (Ok(()), None) => "sent".to_owned(),
            (Err(error), _) => error.to_string(),
        };
        let line = format!("{}. {request}: {outcome} after {:?}", attempt.number(), began.elapsed());
        self.0.lock().unwrap().push(line);
        sent
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corehttp::testing::TestServer;
    use corehttp::{Context, Status};

    use super::*;

    /// The credentials of the examples in AWS' documentation.
    fn example(service: &str) -> Signature {
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let credentials = Credentials::new("AKIDEXAMPLE", secret, None, None, "example");
        let now = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160); // 30 August 2015, 12:36
        Signature { now, ..Signature::new(service, "us-east-1", credentials) }
    }

    #[test]
    fn a_retry_is_identified_signed_and_recorded_anew() {
        let server = TestServer::start(|ctx: &mut Context| {
            let field = |name| ctx.request.headers.get(name).unwrap_or_default().to_owned();
            let (id, signature) = (field("x-request-id"), field("authorization"));
            assert!(signature.starts_with(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/s3/aws4_request, \
                 SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-request-id, Signature="
            ));
            match id.ends_with("-1") {
                true => ctx.response.status = Status::BAD_GATEWAY,
                false => ctx.response.set_text("milk"),
            }
        })
        .unwrap();
        let recorder = Recorder::default();
        let client = client(server.client_builder(), example("s3"), recorder.clone());
        let response =
            corehttp::block_on(client.get("http://bucket.example/notes?list-type=2")).unwrap().unwrap();
        assert_eq!(response.text(), Ok("milk"));
        let recorded = recorder.take();
        assert_eq!(recorded.len(), 2);
        assert!(
            recorded[0].starts_with("1. GET http://bucket.example/notes?list-type=2: 502 Bad Gateway after ")
        );
        assert!(recorded[1].starts_with("2. GET http://bucket.example/notes?list-type=2: 200 OK after "));
        assert_eq!(server.calls()[1].target, "/notes?list-type=2");
    }
}
