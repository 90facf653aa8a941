//! Answers of calls, and what is noted of them.

use std::time::Instant;

use tyr_fs::{Errno, Result};

use crate::{call::Call, glances::await_glancing, reply::Reply, shared::Shared};

impl Shared {
    /// Does what was asked, notes it, and has the kernel told.
    pub fn answer<T, R: Reply>(
        &self,
        call: Call<'_>,
        reply: R,
        work: impl Future<Output = Result<T>>,
        tell: impl FnOnce(R, T),
    ) {
        let began = self.begin(&call);
        let result = pollster::block_on(work);
        self.end(&call, began, reply, result, tell);
    }

    /// The same for what changes nothing. If whoever asked is about to end meanwhile he is told so, and nobody what comes of it. The work goes on to its end
    /// all the same: it may have been telling others what is open here, and has to take that back.
    pub fn answer_while_asked<T, R: Reply>(
        &self,
        call: Call<'_>,
        reply: R,
        work: impl Future<Output = Result<T>>,
        tell: impl FnOnce(R, T),
    ) {
        let began = self.begin(&call);
        let mut reply = Some(reply);
        let result = await_glancing(work, |waited| {
            if let Some(reply) = reply.take_if(|_| call.is_given_up(waited)) {
                let interrupted = Errno::EINTR.because("who asked for it is about to end");
                self.end(&call, began, reply, Err(interrupted), |_, ()| {});
            }
        });
        if let Some(reply) = reply {
            self.end(&call, began, reply, result, tell);
        }
    }

    /// A call begins; when that was, if anybody wants to know.
    fn begin(&self, call: &Call<'_>) -> Option<Instant> {
        self.counts.ask(call.ask);
        self.log.begin()
    }

    /// A call that began then has ended so.
    fn end<T, R: Reply>(
        &self,
        call: &Call<'_>,
        began: Option<Instant>,
        reply: R,
        result: Result<T>,
        tell: impl FnOnce(R, T),
    ) {
        if let Some(began) = began {
            self.log.end(call, began, result.as_ref().err().map(tyr_fs::Error::errno));
        }
        match result {
            Ok(value) => tell(reply, value),
            Err(error) => {
                self.counts.failed();
                reply.refuse(fuser::Errno::from_i32(error.errno().number()));
            }
        }
    }
}
