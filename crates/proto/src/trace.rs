//! What is said along with a message of a transaction that is traced. Nothing of it is looked at by the protocol.

use alloc::vec::Vec;

/// Of which trace something is a part, and of which span of it (W3C Trace Context, section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; never 0.
    pub trace: u128,
    /// The span of whoever said it; never 0.
    pub span: u64,
}

impl TraceContext {
    /// Writes it in front of a message.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.trace.to_be_bytes());
        out.extend_from_slice(&self.span.to_be_bytes());
    }

    /// Splits it from the message that follows; `None` if there is none.
    pub fn split(body: &[u8]) -> Option<(Self, &[u8])> {
        let (trace, rest) = body.split_first_chunk()?;
        let (span, rest) = rest.split_first_chunk()?;
        let context = TraceContext { trace: u128::from_be_bytes(*trace), span: u64::from_be_bytes(*span) };
        (context.trace != 0 && context.span != 0).then_some((context, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_comes_back_with_what_follows_it() {
        let context = TraceContext { trace: 0x0123 << 100, span: 7 };
        let mut body = Vec::new();
        context.write(&mut body);
        body.extend_from_slice(b"rest");
        assert_eq!(TraceContext::split(&body), Some((context, &b"rest"[..])));
        assert_eq!(TraceContext::split(&body[..23]), None);
        assert_eq!(TraceContext::split(&[0; 40]), None);
    }
}
