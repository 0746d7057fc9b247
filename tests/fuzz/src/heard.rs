//! [`Heard`]: the octets that a peer in memory has received; and how such a peer speaks and listens.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::yield_now;
use tokio::time::sleep;

/// All that was received on the only connection of a peer, once there is no more.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Option<Vec<u8>>>>);

impl Heard {
    /// Forgets the connection, for the next one.
    pub fn clear(&self) {
        *self.0.lock().unwrap() = None;
    }

    /// Closes the sending half of the connection, and receives the rest after `received`, up to its end.
    pub async fn end(&self, mut far: DuplexStream, mut received: Vec<u8>) {
        let _ = far.shutdown().await;
        let _ = far.read_to_end(&mut received).await;
        *self.0.lock().unwrap() = Some(received);
    }

    /// Waits until the connection has ended.
    pub async fn all(&self) -> Vec<u8> {
        for _ in 0..SECONDS_MAX {
            if let Some(received) = self.ended() {
                return received;
            }
            sleep(Duration::from_secs(1)).await;
        }
        panic!("a connection is still open");
    }

    fn ended(&self) -> Option<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }
}

const SECONDS_MAX: u32 = 1000;

/// Sends a packet, and has the other side read it before the next one.
pub async fn say(far: &mut DuplexStream, packet: &[u8]) {
    // Who has left gets no more.
    let _ = far.write_all(packet).await;
    for _ in 0..4 {
        yield_now().await;
    }
}

/// Reads up to the end of a head. Returns whether it came.
pub async fn read_head(far: &mut DuplexStream, received: &mut Vec<u8>) -> bool {
    let (start, mut octet) = (received.len(), [0]);
    while !received[start..].ends_with(b"\r\n\r\n") {
        if !matches!(far.read(&mut octet).await, Ok(1)) {
            return false;
        }
        received.push(octet[0]);
    }
    true
}
