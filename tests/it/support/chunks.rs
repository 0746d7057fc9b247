//! [`Chunks`]: a body in chunks, well-formed or spoiled (RFC 9112 §7.1).

use super::chance::Chance;

/// A body in chunks.
#[derive(Clone, Debug)]
pub struct Chunks {
    sizes: Vec<usize>,
    extension: &'static str,
    /// The value of the trailer `x-sum`.
    pub trailer: Option<&'static str>,
    spoiled: Option<Spoiled>,
}

/// One end of line in place of which something else stands.
#[derive(Clone, Copy, Debug)]
enum Spoiled {
    Size(&'static str),
    Data(&'static str),
    Trailers(&'static str),
}

impl Chunks {
    /// Up to five chunks of sizes that `size` draws.
    pub fn draw(chance: &mut Chance, size: impl Fn(&mut Chance) -> usize) -> Chunks {
        let sizes = chance.some(5, |chance| size(chance).max(1));
        let extension = chance.one_of(&["", "", ";a", ";a=b", " ; a = \"b;\\\" \" ;c"]);
        let trailer = chance.one_of(&[None, None, Some("1"), Some("a b")]);
        Chunks { sizes, extension, trailer, spoiled: None }
    }

    /// Breaks the grammar at some place.
    pub fn spoil(&mut self, chance: &mut Chance) {
        let size = chance.one_of(&["\n", " \r\n", ";\r\n", "\r\r\n", "\0\r\n", ";a=\r\n", ";a=\"\r\n"]);
        let data = chance.one_of(&["", "\n", "\r", "x\r\n", "\r\n\r\n"]);
        let trailers =
            chance.one_of(&["host: b\r\n\r\n", "content-length: 1\r\n\r\n", " a: b\r\n\r\n", "a\r\n\r\n"]);
        let spoiled = [Spoiled::Size(size), Spoiled::Data(data), Spoiled::Trailers(trailers)];
        self.sizes.push(1);
        self.spoiled = Some(chance.one_of(&spoiled));
    }

    /// Whether no reader takes it. Readers of responses discard trailers that must not be there (RFC 9112 §7.1.2).
    pub fn is_spoiled(&self, in_response: bool) -> bool {
        match self.spoiled {
            Some(Spoiled::Trailers("host: b\r\n\r\n" | "content-length: 1\r\n\r\n")) => !in_response,
            spoiled => spoiled.is_some(),
        }
    }

    /// How much content it carries.
    pub fn len(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// How `content`, which is as long as the chunks are together, is sent.
    pub fn wire(&self, mut content: &str) -> String {
        let Chunks { sizes, extension, trailer, spoiled } = self;
        let (mut wire, last) = (String::new(), sizes.len());
        for (at, size) in sizes.iter().enumerate() {
            let (data, rest) = content.split_at(*size);
            let (size_end, data_end) = match spoiled {
                Some(Spoiled::Size(bad)) if at + 1 == last => (*bad, "\r\n"),
                Some(Spoiled::Data(bad)) if at + 1 == last => ("\r\n", *bad),
                _ => ("\r\n", "\r\n"),
            };
            wire += &format!("{size:02X}{extension}{size_end}{data}{data_end}");
            content = rest;
        }
        let trailer = trailer.map_or(String::new(), |value| format!("X-Sum: {value}\r\n"));
        let end = if let Some(Spoiled::Trailers(bad)) = spoiled { bad } else { "\r\n" };
        wire + &format!("0{extension}\r\n{trailer}{end}")
    }
}

/// Content of this length, in which no octet can be lost, doubled or moved unnoticed.
pub fn content(len: usize) -> String {
    (0..len).map(|at| char::from(b'a' + ((at + at / 23) % 26) as u8)).collect()
}
