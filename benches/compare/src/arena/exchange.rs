//! [`Peer`]: a connection that asks and waits, for the rules; and [`Response`], decoded.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::load::Secure;

pub(super) struct Peer<S: Read + Write> {
    stream: BufReader<S>,
}

pub(super) struct Response {
    pub(super) status: u16,
    /// Names in lower case, and values.
    fields: Vec<(String, String)>,
    /// As it was sent.
    pub(super) body: Vec<u8>,
}

pub(super) fn connect(address: SocketAddr) -> io::Result<Peer<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(Peer { stream: BufReader::new(stream) })
}

pub(super) fn connect_securely(
    address: SocketAddr,
    client: &Secure,
) -> io::Result<Peer<impl Read + Write + use<>>> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(Peer { stream: BufReader::new(client.connect(stream)?) })
}

const TIMEOUT: Duration = Duration::from_secs(10);

impl<S: Read + Write> Peer<S> {
    pub(super) fn ask(&mut self, request: &[u8]) -> io::Result<Response> {
        self.send(request)?;
        self.receive()
    }

    pub(super) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(request)?;
        self.stream.get_mut().flush()
    }

    pub(super) fn receive(&mut self) -> io::Result<Response> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("the response has no status"))?;
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response { status, fields, body: Vec::new() };
        if let Some(len) = response.field("content-length") {
            response.body = self.octets(len.parse().map_err(io::Error::other)?)?;
        } else if response.field("transfer-encoding").is_some() {
            response.body = self.chunks()?;
        } else if status >= 200 && status != 204 && status != 304 {
            return Err(io::Error::other("the response has neither a length nor chunks"));
        }
        Ok(response)
    }

    pub(super) fn octets(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut octets = vec![0; len];
        self.stream.read_exact(&mut octets)?;
        Ok(octets)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            let len = usize::from_str_radix(&self.line()?, 16).map_err(io::Error::other)?;
            content.extend(self.octets(len)?);
            self.line()?;
            if len == 0 {
                return Ok(content);
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Response {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// The content without its coding.
    pub(super) fn content(&self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        match self.field("content-encoding") {
            None => return Ok(self.body.clone()),
            Some("br") => brotli::Decompressor::new(&self.body[..], 4096).read_to_end(&mut content)?,
            Some("gzip") => flate2::read::GzDecoder::new(&self.body[..]).read_to_end(&mut content)?,
            Some(coding) => return Err(io::Error::other(format!("nobody asked for {coding}"))),
        };
        Ok(content)
    }
}
