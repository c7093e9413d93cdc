//! One payment, from the first time that it is sent to what is known of it.

use std::time::Duration;

use reqwest::{Url, header::HeaderMap};
use tokio::time::sleep;
use tollhouse_base::clock::Clock;
use tollhouse_tool::MicroUsd;

use super::{
    answer::{Settlement, why},
    attempt::{Went, attempt},
    record::Sent,
    reply::{Progress, Reply},
    seller::Seller,
    state::{self, Became},
};

/// Beside the time that the work may take: for settling, and for the way there and back.
const BESIDE: Duration = Duration::from_secs(30);

/// The longest that work is waited for, whatever a seller asks for.
const MOST_SECS: u64 = 600;

/// How often, and after how long, a host is asked again of a payment that it says is under way.
const LOOKS: [Duration; 4] = [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(3)];

/// How it ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Here is what was paid for, and what was said of the settlement.
    Answered { reply: Reply, settlement: Option<Settlement> },
    /// It came, and is larger than is read.
    TooLarge { settlement: Settlement },
    /// Nothing was taken, and nothing will be.
    Untaken { reply: Option<Reply> },
    /// Nobody was there.
    Unsent(String),
    /// It is not known; or it is, and the answer is not here. With what was said in its place.
    Unknown { said: Option<String>, settled: bool },
}

/// Sends it, and finds out what became of it. `was_sent` says that it may have been sent before, by another process.
pub(crate) async fn perform(
    seller: &Seller,
    sent: &Sent,
    headers: &HeaderMap,
    host: &Url,
    was_sent: bool,
    tell: &mut dyn FnMut(Progress),
) -> Ended {
    let most = Duration::from_secs(sent.timeout_secs.min(MOST_SECS)) + BESIDE;
    let (went, in_doubt) = attempt(seller, headers, most, was_sent, tell).await;
    let settlement = |reply: &Reply| Settlement::of(reply, sent);
    match went {
        Went::Answered(reply) => {
            let mut settlement = settlement(&reply).filter(|settled| settled.success);
            if settlement.is_none() && !sent.usd.is_zero() && became(seller, host, sent).await == Became::Settled {
                settlement = Some(Settlement::UNSAID);
            }
            Ended::Answered { reply, settlement }
        }
        Went::TooLarge(reply) => match settlement(&reply).filter(|settled| settled.success) {
            Some(settlement) => Ended::TooLarge { settlement },
            None => match became(seller, host, sent).await {
                Became::Settled => Ended::TooLarge { settlement: Settlement::UNSAID },
                Became::Untaken => Ended::Untaken { reply: None },
                _ => Ended::Unknown { said: Some("the answer is larger than 64 MiB, and was not kept".to_owned()), settled: false },
            },
        },
        Went::Unsent(why) => Ended::Unsent(why),
        Went::Refused(reply) | Went::Busy(reply) => match became(seller, host, sent).await {
            Became::Untaken => Ended::Untaken { reply: Some(reply) },
            // It was refused, and never reached what is paid for; unless it is still on its way from a time before.
            Became::Unheard if !in_doubt || is_over(sent) => Ended::Untaken { reply: Some(reply) },
            became => Ended::Unknown { said: Some(why(&reply)), settled: became == Became::Settled },
        },
        Went::Lost(said) => match became(seller, host, sent).await {
            Became::Untaken => Ended::Untaken { reply: None },
            became => Ended::Unknown { said, settled: became == Became::Settled },
        },
    }
}

/// How far a host's clock may be behind.
const CLOCKS_SECS: u64 = 600;

/// Whether the profile's own host would not take it any more, if it came now: what that has not heard of by then, it never took.
fn is_over(sent: &Sent) -> bool {
    let until = sent.token.as_ref().map_or(u64::MAX, |token| token.until_secs.saturating_add(CLOCKS_SECS));
    sent.own && Clock::default().now().0 / 1_000 > until
}

/// What the host says of it, once it says something that lasts.
async fn became(seller: &Seller, host: &Url, sent: &Sent) -> Became {
    let mut looks = LOOKS.into_iter();
    loop {
        let became = state::ask(seller, host, &sent.payment_id).await;
        match (became, looks.next()) {
            (Became::UnderWay, Some(wait)) => sleep(wait).await,
            _ => return became,
        }
    }
}

impl Ended {
    /// What counts as taken from now on; `None` while it is not known. Who is not the profile's own host is not believed to have taken
    /// less than it could.
    pub(crate) fn taken(&self, sent: &Sent) -> Option<MicroUsd> {
        let told = match self {
            Self::Unsent(_) => return Some(MicroUsd::ZERO),
            Self::Unknown { settled: false, .. } => return None,
            Self::Unknown { settled: true, .. } => sent.usd,
            Self::Untaken { .. } => MicroUsd::ZERO,
            Self::Answered { settlement, .. } => settlement.as_ref().and_then(|settled| settled.taken).unwrap_or(sent.usd),
            Self::TooLarge { settlement } => settlement.taken.unwrap_or(sent.usd),
        };
        Some(if sent.own { told } else { sent.usd })
    }
}
