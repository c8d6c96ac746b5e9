//! Fields of log lines as text. Values come from peers and requests. They are escaped, so each
//! event stays one line.

use std::fmt::{self, Debug};
use tallymesh_node_ground::escape;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes fields as `message name=value`, as the subscriber's own format does, with values escaped.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line {
            writer,
            begun: false,
            result: Ok(()),
        };
        fields.record(&mut line);
        line.result
    }
}

struct Line<'w> {
    writer: Writer<'w>,
    begun: bool,
    result: fmt::Result,
}

impl Line<'_> {
    fn put(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        if self.begun {
            self.writer.write_char(' ')?;
        }
        self.begun = true;
        let value = format!("{value:?}");
        // A backtrace comes from the program itself, and has several lines.
        let value = match name {
            "backtrace" => escape::layout(&value),
            _ => escape::value(&value),
        };
        match (name, self.writer.has_ansi_escapes()) {
            ("message", _) => self.writer.write_str(&value),
            // Italic, and a dim sign.
            (name, true) => write!(
                self.writer,
                "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m{value}"
            ),
            (name, false) => write!(self.writer, "{name}={value}"),
        }
    }
}

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // For events of the crate `log`, fields with that prefix repeat parts of the line.
        if self.result.is_ok() && !field.name().starts_with("log.") {
            self.result = self.put(field.name(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("the sink").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_its_values_hold() {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .without_time()
            .fmt_fields(Fields)
            .finish();
        let evil = "\u{1b}[2Ja\nb\u{9b}31m\u{202e}";
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("link", peer = %evil);
            let _inside = span.enter();
            tracing::info!(key = %evil, text = evil, count = 3, "it says {evil}");
        });
        let said = String::from_utf8(sink.0.lock().expect("the sink").clone()).expect("text");
        let line = said.strip_suffix('\n').expect("a line");
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!(!line.contains('\u{202e}'), "{line:?}");
        assert!(
            line.contains("it says \\u{1b}[2Ja\\nb\\u{9b}31m\\u{202e}"),
            "{line:?}"
        );
        assert!(
            line.contains(" count=3") && line.contains(" key=\\u{1b}[2Ja"),
            "{line:?}"
        );
    }
}
