//! `tools/call`: the same call as over HTTP, in MCP's wrapping.
//!
//! There is one way through, whether the request was read here or by rmcp, and whoever waits for the end:
//!
//! ```text
//! perform ─▶ own tools
//!         └▶ admit: rate, find, payment ─▶ begin ─┬▶ a task of its own: until it is one, or ends ─┬▶ answer
//!                                                 └▶ its end, with what is heard on the way ──────┘
//! ```

use std::{net::IpAddr, sync::Arc};

use rmcp::{
    ErrorData,
    model::{CallToolResponse, JsonObject},
};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    answer::{self, Told},
    asked::Asked,
    begun::Begun,
    front::Front,
    narrowed::Narrowed,
    offer::{Dialect, offer},
    own,
    revision::Era,
    services::Services,
    tasks::Started,
};
use crate::{
    base::{
        aside::{Bulk, aside},
        id::RequestId,
    },
    call::{Call, CallError, Done, Input},
    front::{Code, Fault, check_offered, network, peer},
    money::Offered,
};

/// How a call is told to the log.
struct Ending {
    outcome: &'static str,
    charged: &'static str,
}

/// The caller closed the connection: in the older revisions the call goes on, and even in the newest it may be settling.
const GONE: Ending = Ending { outcome: "cancelled", charged: "unknown" };

/// A call's line in the log: written when the call ends, or when its caller goes before.
struct Line<'a> {
    asked: &'a Asked<'a>,
    address: IpAddr,
    begun: Instant,
    ending: Ending,
}

impl<'a> Line<'a> {
    fn begin(asked: &'a Asked<'a>, address: IpAddr) -> Self {
        Self { asked, address, begun: Instant::now(), ending: GONE }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let name = self.asked.name;
        tracing::info!(
            request.id = %self.asked.parts.extensions.get::<RequestId>().map(RequestId::as_str).unwrap_or_default(),
            caller.address = %self.address,
            tool.name = %name.get(..64).unwrap_or(name),
            outcome = self.ending.outcome,
            charged = self.ending.charged,
            elapsed_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            "a tool was called over MCP"
        );
    }
}

/// Performs a call. Must run where [`crate::front::REQUEST`] is set.
///
/// # Errors
///
/// See [`answer::failed`].
pub(super) async fn perform(front: &Arc<Front>, asked: Asked<'_>, arguments: JsonObject) -> Result<Told, ErrorData> {
    let address = peer(&asked.parts.extensions);
    let mut line = Line::begin(&asked, address);
    let (mut told, ending) = answered(front, &asked, address, Bulk::new(Value::Object(arguments))).await;
    line.ending = ending;
    match told.as_mut().map(|told| &mut told.response) {
        Ok(CallToolResponse::Complete(result)) if asked.era == Era::Modern => front.sign(&mut result.meta),
        Ok(CallToolResponse::Task(result)) => front.sign(&mut result.meta),
        _ => {}
    }
    told
}

async fn answered(front: &Front, asked: &Asked<'_>, address: IpAddr, arguments: Bulk) -> (Result<Told, ErrorData>, Ending) {
    let (services, narrowed) = (&front.services, Narrowed::of(asked.parts));
    if let Err(fault) = count(services, address, asked.name) {
        return refused(&fault, Dialect::of(asked.era, asked.meta, &Offered::Nothing));
    }
    if let Some(answered) = own::perform(services, address, &narrowed, asked.name, &arguments).await {
        let ending = Ending { outcome: answered.as_ref().map_or_else(|fault| fault.code().row().name, |_| "ok"), charged: "no" };
        return (Ok(answered.unwrap_or_else(|fault| answer::refused(&fault)).into()), ending);
    }
    let (call, dialect) = match admit(services, asked, address, &narrowed, arguments).await {
        Ok(admitted) => admitted,
        Err((fault, dialect)) => return refused(&fault, dialect),
    };
    let begun = Begun::begin(services, &front.cancellable, call, asked);
    let ended = if begun.as_task {
        match Box::pin(front.tasks.keep(begun, dialect)).await {
            Ok(Started::Task(task)) => return (Ok(task), Ending { outcome: "task", charged: "no" }),
            Ok(Started::Ended(ended)) => ended,
            Err(error) => return refused(&Fault::from(error), dialect),
        }
    } else {
        waited_for(begun, asked, services).await
    };
    match ended {
        Ok(done) => {
            let ending = Ending { outcome: if done.success { "ok" } else { "tool_error" }, charged: charged(&done) };
            let told = aside(done.answer.body.len(), || answer::done(&done, &services.base_url, dialect)).await;
            (Ok(told), ending)
        }
        Err(error) => {
            let (told, ending) = refused(&Fault::from(&*error), dialect);
            (told, if matches!(*error, CallError::Cancelled) { GONE } else { ending })
        }
    }
}

/// Counts a call of a tool by an address.
fn count(services: &Services, address: IpAddr, name: &str) -> Result<(), Fault> {
    let Some(rate) = &services.settings.rate else { return Ok(()) };
    let Some(seconds) = rate.wait(&(address, name.to_owned())) else { return Ok(()) };
    let message = format!("more than {} calls per second of `{name}` from your address", rate.per_second());
    Err(Fault::new(Code::RateLimited, message).hint(format!("try again in {seconds} s")))
}

/// The call, of a tool that takes it of this caller, with what they offer; and how they are to be told what becomes of it.
async fn admit(
    services: &Services,
    asked: &Asked<'_>,
    address: IpAddr,
    narrowed: &Narrowed,
    arguments: Bulk,
) -> Result<(Call, Dialect), (Fault, Dialect)> {
    let limits = &services.shared.limits;
    let unpaid = Dialect::of(asked.era, asked.meta, &Offered::Nothing);
    let found = if narrowed.has(asked.name) {
        services.shared.callers.called(&services.calls, &asked.parts.headers, &services.settings.slug_of(asked.name)).await
    } else {
        Err(Fault::unknown_endpoint(asked.name))
    };
    let (live, by) = found.map_err(|fault| {
        limits.wrong_credential(address, &fault);
        (fault, unpaid)
    })?;
    let offered = limits.limit_credit(address, offer(asked.meta, &asked.parts.headers)).map_err(|fault| (fault, unpaid))?;
    let dialect = Dialect::of(asked.era, asked.meta, &offered);
    check_offered(&services.calls, &live, by, &offered).map_err(|fault| (fault, dialect))?;
    let head = asked.head(&live);
    let input = Input::Json(arguments.take());
    Ok((Call { live, by, input, offered, head, from: network(address), progress: None }, dialect))
}

/// The end of a call, or that its caller went before.
async fn waited_for(begun: Begun, asked: &Asked<'_>, services: &Services) -> Result<Done, Arc<CallError>> {
    let ended = begun.ended(asked.hearer.as_ref(), services.settings.progress);
    let Some(gone) = asked.gone else { return ended.await };
    tokio::select! {
        biased;
        ended = ended => ended,
        () = gone.cancelled() => Err(Arc::new(CallError::Cancelled)),
    }
}

fn charged(done: &Done) -> &'static str {
    if done.payment.is_some() && done.success { "yes" } else { "no" }
}

fn refused(fault: &Fault, dialect: Dialect) -> (Result<Told, ErrorData>, Ending) {
    let row = fault.code().row();
    (answer::failed(fault, dialect).map(Told::from), Ending { outcome: row.name, charged: row.charged.as_str() })
}
