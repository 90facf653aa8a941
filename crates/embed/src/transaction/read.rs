//! Reading in a transaction: the pinned state with the transaction's own changes laid over, and a note of what was seen.

use std::convert::Infallible;
use std::sync::Arc;

use tyr_store::Head;
use tyr_types::{BlobId, Error, Number, OFFSET_MAX, Operand, Result};

use super::draft::{Base, Draft, Halt, Origin};
use super::layer::{Bytes, index};
use super::observed::Observed;
use super::overlay::{Presence, Step, Swapped};
use super::{Touched, Transaction};
use crate::read::{Source, Span, Stat, UNASKED_MAX, no_blob, zeroed};
use crate::reservation::Place;

/// What a read found besides bytes.
struct View {
    exists: bool,
    size: u64,
    size_from_base: bool,
}

impl Transaction {
    /// The bytes of the span as far as the blob goes.
    pub(super) async fn read_span(&mut self, place: &Place, span: Span) -> Result<Vec<u8>> {
        let end = span.end.unwrap_or(OFFSET_MAX);
        let mut size = match span.end {
            Some(end) if end - span.start <= UNASKED_MAX => end,
            _ => self.draft_head(place).await?.size,
        };
        loop {
            let mut bytes = zeroed(span.length(size))?;
            let view = self.read_up_to(place, span.start, &mut bytes, end).await?;
            if span.length(view.size) <= bytes.len() as u64 {
                bytes.truncate(index(span.length(view.size)));
                return Ok(bytes);
            }
            // Only where nothing is pinned.
            size = view.size + view.size / 8;
        }
    }

    /// Fills the buffer as far as the blob goes.
    pub(super) async fn read_buffer(
        &mut self,
        place: &Place,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let end = offset + buffer.len() as u64;
        let view = self.read_up_to(place, offset, buffer, end).await?;
        Ok(index(view.size.min(end).saturating_sub(offset)))
    }

    /// Fills the buffer for a caller that asked for everything up to `end`, and so sees the size if the blob ends before.
    async fn read_up_to(&mut self, place: &Place, offset: u64, buffer: &mut [u8], end: u64) -> Result<View> {
        let touched = self.touched(place);
        if touched.overlay.covers(offset..offset + buffer.len() as u64) && end <= offset + buffer.len() as u64
        {
            self.fill_from_own(place, offset, buffer).await?;
            return Ok(View { exists: true, size: end, size_from_base: false });
        }
        for step in touched.overlay.unresolved(offset..end) {
            self.resolve(place, step).await?;
        }
        let steps = self.touched(place).overlay.steps().len();
        let view = self.view(place, steps, offset, buffer, end).await?;
        let touched = self.touched(place);
        if !view.exists {
            return Err(no_blob(&touched.keyspace.name, &place.1));
        }
        if view.size < end && view.size_from_base {
            touched.see(Observed::see_size);
        }
        Ok(view)
    }

    /// Works out a deferred transform against what is pinned: from now on it is a guarded read and a write.
    async fn resolve(&mut self, place: &Place, step: usize) -> Result<()> {
        let Some(Step::Transform { offset, transform, .. }) = self.touched(place).overlay.steps().get(step)
        else {
            return Ok(());
        };
        let (offset, transform) = (*offset, *transform);
        let mut bytes = [0; 8];
        let bytes = &mut bytes[..transform.number_type().size()];
        self.view(place, step, offset, bytes, offset + bytes.len() as u64).await?;
        let old = Operand::from_le_bytes(transform.number_type(), bytes)?;
        let swapped = Swapped { old, new: transform.apply(old) };
        self.touched(place).overlay.resolve(step, swapped);
        Ok(())
    }

    /// Fills the buffer with what the first `steps` steps make of the blob, zeros past its end.
    async fn view(
        &mut self,
        place: &Place,
        steps: usize,
        offset: u64,
        buffer: &mut [u8],
        end: u64,
    ) -> Result<View> {
        let (head, len) = self.read_base(place, offset, buffer).await?;
        buffer[len..].fill(0);
        let window = offset..offset + buffer.len() as u64;
        let Touched { observed, overlay, .. } = self.touched(place);
        let Some(observed) = observed else { return Err(Error::internal("a read observes its blob")) };
        let mut draft = Draft::new(head.as_deref().map(Base::from), window.clone());
        let steps = overlay.steps().get(..steps).unwrap_or_default();
        draft.take(steps, |_, _| Err(Error::internal("what a read needs is worked out"))).map_err(halted)?;
        if draft.floating.is_some_and(|floating| end > floating.max(offset)) && !observed.size {
            return Err(Error::invalid(
                "the range may contain bytes that this transaction appends, whose offset is not known before the \
                 commit; read less, or stat the blob first",
            ));
        }
        if draft.attributes_from_base {
            observed.see_existence();
        }
        let at =
            observed.pin.as_ref().map_or(head.as_ref().map(|head| head.number), |pin| Some(pin.number()));
        for gap in draft.gaps(window.clone()) {
            observed.see_bytes(gap, at.unwrap_or(Number::ZERO));
        }
        if draft.visible < window.end {
            buffer[index(draft.visible.saturating_sub(offset))..].fill(0);
        }
        let view = View { exists: draft.exists, size: draft.size, size_from_base: draft.size_from_base };
        let packed = lay_over(&draft, offset, buffer);
        self.unpack(packed, offset, buffer).await?;
        Ok(view)
    }

    /// Fills the buffer with own bytes, which cover it.
    async fn fill_from_own(&mut self, place: &Place, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let overlay = &self.touched(place).overlay;
        let mut draft = Draft::new(None, offset..offset + buffer.len() as u64);
        let last = overlay.steps().len().saturating_sub(1);
        draft.take::<Infallible>(&overlay.steps()[last..], |_, _| Ok(())).map_err(|halt| match halt {
            Halt::Failed(error) => error,
            Halt::Stop(_) | Halt::Packed(_) => Error::internal("writes alone need no base"),
        })?;
        let packed = lay_over(&draft, offset, buffer);
        self.unpack(packed, offset, buffer).await
    }

    async fn unpack(&self, packed: Vec<Packed>, offset: u64, buffer: &mut [u8]) -> Result<()> {
        for Packed { start, skip, len, payload } in packed {
            let read = move |engine: &tyr_store::Store| {
                let mut bytes = vec![0; len];
                engine.read_payload(&payload, skip, &mut bytes)?;
                Ok(bytes)
            };
            let bytes = self.core.waiting.block(self.mode, read).await?;
            buffer[index(start - offset)..][..len].copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// Reads the committed bytes, pinning the blob if this is the first look at it.
    async fn read_base(
        &mut self,
        place: &Place,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<(Option<Arc<Head>>, usize)> {
        let (pin, at) = self.pin(place).await?;
        let read = self.source(place, at).read_into(offset, buffer).await?;
        let (head, len) = read.map_or((None, 0), |(head, len)| (Some(head), len));
        self.touched(place).meet(pin, head.clone());
        Ok((head, len))
    }

    /// The committed state, pinning the blob if this is the first look at it.
    pub(super) async fn observe(&mut self, place: &Place) -> Result<Option<Arc<Head>>> {
        if let Some(Observed { pin: Some(_), head, .. }) = &self.touched(place).observed {
            return Ok(head.clone());
        }
        let (pin, at) = self.pin(place).await?;
        let head = self.source(place, at).head().await?;
        self.touched(place).meet(pin, head.clone());
        Ok(head)
    }

    /// The number to read at, and a new pin if none is held yet but one is to be.
    async fn pin(&mut self, place: &Place) -> Result<(Option<tyr_store::Pin>, Number)> {
        let touched = self.touched(place);
        match &touched.observed {
            Some(Observed { pin: Some(pin), .. }) => return Ok((None, pin.number())),
            Some(_) => return Ok((None, Number::MAX)),
            None => {}
        }
        let multi_version = touched.keyspace.multi_version();
        if let Some(turn) = &self.turn {
            turn.reserve(place.0, &place.1);
        }
        if !multi_version {
            return Ok((None, Number::MAX));
        }
        let (id, key) = place.clone();
        let op = move |engine: &tyr_store::Store, wait| engine.pin_blob(id, &key, wait);
        let pin = self.core.waiting.call(self.mode, op).await?;
        let at = pin.number();
        Ok((Some(pin), at))
    }

    fn source<'a>(&'a self, place: &'a Place, at: Number) -> Source<'a> {
        Source { core: &self.core, mode: self.mode, keyspace: place.0, key: &place.1, at }
    }

    /// The blob without its bytes, as the transaction would leave it.
    pub(super) async fn draft_head(&mut self, place: &Place) -> Result<Drafted> {
        let head = self.observe(place).await?;
        let Touched { overlay, .. } = self.touched(place);
        let mut draft = Draft::new(head.as_deref().map(Base::from), 0..0);
        draft.take(overlay.steps(), |_, _| Err(Error::internal("no bytes are read"))).map_err(halted)?;
        let same = head.as_deref().filter(|_| draft.attributes_from_base);
        Ok(Drafted {
            exists: draft.exists,
            size: draft.size,
            size_from_base: draft.size_from_base,
            attributes_from_base: draft.attributes_from_base,
            stat: Stat {
                size: draft.size,
                blob: same.map_or(BlobId::from_u64(0), |head| head.blob),
                version: same.map_or(Number::ZERO, |head| head.number),
                attributes: draft.attributes(),
            },
        })
    }

    /// Whether the blob exists as the transaction left it.
    pub(super) async fn presence(&mut self, place: &Place) -> Result<bool> {
        match self.touched(place).overlay.presence() {
            Presence::Present => Ok(true),
            Presence::Absent => Ok(false),
            Presence::AsBefore => {
                let head = self.observe(place).await?;
                self.touched(place).see(Observed::see_existence);
                Ok(head.is_some())
            }
        }
    }
}

/// A blob without its bytes, as the transaction would leave it, and what of it is still as it was.
pub(super) struct Drafted {
    pub(super) exists: bool,
    pub(super) size: u64,
    pub(super) size_from_base: bool,
    pub(super) attributes_from_base: bool,
    pub(super) stat: Stat,
}

/// Own bytes that have to be read back.
struct Packed {
    start: u64,
    skip: usize,
    len: usize,
    payload: tyr_store::Payload,
}

/// Copies the pieces that show into the buffer, which begins at `offset`; returns those that are not in memory.
fn lay_over(draft: &Draft<'_>, offset: u64, buffer: &mut [u8]) -> Vec<Packed> {
    let mut packed = Vec::new();
    for (start, piece) in draft.shown(offset..offset + buffer.len() as u64) {
        let (skip, len) = (index(piece.skip), index(piece.len));
        let target = &mut buffer[index(start - offset)..][..len];
        match piece.origin {
            Origin::Number(number) => target.copy_from_slice(&number[skip..][..len]),
            Origin::Hole => target.fill(0),
            Origin::Bytes(_, Bytes::Loose(bytes) | Bytes::Ready(bytes, _)) => {
                target.copy_from_slice(&bytes[skip..][..len]);
            }
            Origin::Bytes(_, Bytes::Packed(payload)) => {
                packed.push(Packed { start, skip, len, payload: payload.clone() });
            }
        }
    }
    packed
}

fn halted(halt: Halt<Error>) -> Error {
    match halt {
        Halt::Stop(error) | Halt::Failed(error) => error,
        Halt::Packed(_) => Error::internal("a read halts at no piece"),
    }
}
