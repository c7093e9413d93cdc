//! Parses Server-Sent Events from pieces of any size, with a size limit.

/// Maximum size of an event, in bytes: more than any entry of the host.
const MAX_BYTES: usize = 4 << 20;

/// One Server-Sent Event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its id, from which a reader can resume.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: String,
}

/// Parses events from bytes.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
    /// The host's delay for reconnecting, in milliseconds.
    pub(crate) retry: Option<u64>,
}

/// An event that is too large to be from a host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Reader {
    /// Takes the next bytes. Returns the events that they complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut events = Vec::new();
        for &byte in bytes {
            let is_second = byte == b'\n' && std::mem::take(&mut self.after_return);
            self.after_return = byte == b'\r';
            match byte {
                b'\n' if is_second => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ if self.line.len() + self.event.data.len() >= MAX_BYTES => return Err(TooLarge),
                _ => self.line.push(byte),
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            "retry" => self.retry = value.parse().ok().or(self.retry),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b": hello\r\n\r\nid: 1\nevent: log\ndata: {\"a\":\ndata:1}\n\nretry: 250\n\ndata\n\nevent: x\n\nid: 2\rdata: two\r\rid: 3\ndata: cut";

    fn events(pieces: usize) -> (Vec<Event>, Option<u64>) {
        let mut reader = Reader::default();
        let read = STREAM.chunks(pieces).flat_map(|piece| reader.take(piece).unwrap()).collect();
        (read, reader.retry)
    }

    #[test]
    fn events_read_the_same_in_any_pieces() {
        let event =
            |id: Option<&str>, name: &str, data: &str| Event { id: id.map(str::to_owned), name: name.to_owned(), data: data.to_owned() };
        let requested = vec![event(Some("1"), "log", "{\"a\":\n1}"), event(None, "", ""), event(Some("2"), "", "two")];
        for pieces in 1..STREAM.len() {
            assert_eq!(events(pieces), (requested.clone(), Some(250)), "{pieces}");
        }
    }

    #[test]
    fn endless_event_is_rejected() {
        let mut reader = Reader::default();
        let piece = vec![b'a'; 1 << 20];
        assert!((0..5).any(|_| reader.take(&piece) == Err(TooLarge)));
    }
}
