//! [`IdleConns`]: connections that were answered once, stay open and say nothing.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::application::{Exchange, HELLO};

pub(crate) struct IdleConns {
    streams: Vec<TcpStream>,
}

impl IdleConns {
    pub(crate) fn open(address: SocketAddr, count: usize) -> io::Result<IdleConns> {
        let request = Exchange::Plain.request();
        let mut streams = Vec::with_capacity(count);
        while streams.len() < count {
            let batch = streams.len()..count.min(streams.len() + BATCH);
            let mut batch: Vec<TcpStream> =
                batch.map(|_| TcpStream::connect(address)).collect::<Result<_, _>>()?;
            for stream in &mut batch {
                stream.write_all(&request)?;
            }
            for stream in &mut batch {
                read_response(stream)?;
            }
            streams.append(&mut batch);
        }
        Ok(IdleConns { streams })
    }

    /// Are all of them open still? Then what was measured was held.
    pub(crate) fn is_whole(&self) -> io::Result<bool> {
        for stream in &self.streams {
            stream.set_nonblocking(true)?;
            if !stream.peek(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// So many are busy at the same time.
const BATCH: usize = 100;

fn read_response(stream: &mut TcpStream) -> io::Result<()> {
    let (mut input, mut filled) = ([0; 1024], 0);
    while !input[..filled].ends_with(HELLO.as_bytes()) {
        match stream.read(&mut input[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => filled += read,
        }
    }
    Ok(())
}
