//! `tollhouse call`: calls a tool, or any x402 resource, and pays for it within limits.

mod dry_run;
mod input;
mod send;
mod thrown;

use std::{path::PathBuf, time::Duration};

use reqwest::header::HeaderMap;
use tokio::time::{Instant, sleep};
use tollhouse_base::clock::{Clock, Timestamp};
use tollhouse_money::{PaymentId, payer::Scheme};
use tollhouse_tool::MicroUsd;

use self::send::Sending;
use super::{
    base::{
        error::{Error, Exit, Result},
        global::Role,
        private_files, prompt,
        session::Session,
    },
    pay::{
        Challenge, ChosenTerms, Draft, LockedRecord, OpenPayment, PaymentState, RecordStore, SentPayment, SpendLog, choose, credit,
        key_file,
        limits::PaymentLimits,
        money::{dollars, usd},
        open_payments, over_limit,
        reply::{LostReply, Reply},
        seller::{Request, Seller},
        state,
        target::PaymentTarget,
    },
};

/// Timeout for an unpaid answer. Free tools may run as long as others.
const UNPAID: Duration = Duration::from_secs(330);

/// Maximum time between counting a payment and storing its record.
const WRITING_MILLIS: u64 = 60_000;

/// How long to wait for a record from another process, and how often to look for it.
const APPEARS_WITHIN: Duration = Duration::from_secs(2);
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Arguments of `call`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Endpoint of the host, or the address of anything that is sold by x402 [default: the endpoint of the folder]
    target: Option<String>,
    /// Input, as JSON: itself, a file's, or standard input's [default: `{}`; an address is asked with GET without one]
    #[arg(id = "input", long = "json", value_name = "V|@FILE|-")]
    input: Option<String>,
    /// Most that the call may cost [default: the profile's, else 0.10]
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_usd: Option<MicroUsd>,
    /// Say what would be paid, and pay nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Send a payment again that had no answer: the same one
    #[arg(long, value_name = "PAYMENT", conflicts_with_all = ["target", "input", "max_usd", "credit", "again", "key_file"])]
    resume: Option<PaymentId>,
    /// Pay with the developer credit that is kept for the host
    #[arg(long)]
    credit: bool,
    /// Tell on standard error what the tool says while it works
    #[arg(long)]
    stream: bool,
    /// Write status and headers before the answer
    #[arg(short = 'i', long = "include")]
    include: bool,
    /// Pay real money without being asked
    #[arg(long, short = 'y')]
    yes: bool,
    /// Pay again though it is not known whether a payment for the same request was taken
    #[arg(long)]
    again: bool,
    /// File with the key that pays [default: TOLLHOUSE_PAY_KEY_FILE, the profile's, else `pay.key` beside `config.toml`]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let folder = private_files::state()?.join("payments");
    let (records, book) = (RecordStore::at(&folder), SpendLog::at(&folder));
    let started = Instant::now();
    if let Some(id) = &args.resume {
        let record = records.find(id)?;
        let (request, host) = record.sent.request()?;
        let sending = Sending {
            session,
            seller: Seller::new(request)?,
            host,
            record,
            was_sent: true,
            book,
            include: args.include,
            started_at: started,
        };
        return sending.send().await;
    }
    // A caller always pays like everyone else. Managing a tool gives no free calls here.
    if let Some(role) = session.client.chosen().filter(|role| *role != Role::Credit) {
        let error = Error::usage(format!(
            "`--as` names the {}, which no call is made with: a call is paid for with your key, or by credit",
            role.what()
        ));
        return Err(error.hint("leave `--as` out, or pay with --credit"));
    }
    let by_credit = args.credit || session.client.chosen() == Some(Role::Credit);
    let target = match &args.target {
        Some(target) => target.clone(),
        None => session.slug(None)?.to_string(),
    };
    let target = &target;
    let means = PaymentLimits::of(session.spends_as(), &session.profile, args.max_usd)?;
    let aim = PaymentTarget::at(session, target, args.input.as_deref().map(input::read).transpose()?, args.stream)?;
    let request = Request { method: aim.method.clone(), url: aim.url.clone(), body: aim.body.clone(), stream: aim.stream };
    let call = Call { session, args: &args, means, aim, seller: Seller::new(request)?, records, book, started_at: started };
    if by_credit { call.by_credit().await } else { call.ask().await }
}

/// A call before payment.
struct Call<'a> {
    session: &'a Session,
    args: &'a Args,
    means: PaymentLimits,
    aim: PaymentTarget,
    seller: Seller,
    records: RecordStore,
    book: SpendLog,
    started_at: Instant,
}

impl Call<'_> {
    /// Requests without a payment, and pays if one is required.
    async fn ask(self) -> Result {
        let reply = self.unpaid().await?;
        if reply.status != 402 {
            let answer = dry_run::unpaid(&self.seller, &self.aim, &reply, self.args.include, self.started_at.elapsed()).await;
            let Err(error) = answer else { return Ok(()) };
            return Err(thrown::placed(self.session, &self.aim.name, self.aim.own, error).await);
        }
        let unreadable = || Error::refused(format!("{} asks for payment in a way that does not read", self.aim.name));
        let challenge = Challenge::read(&reply.headers, &reply.body).ok_or_else(unreadable)?;
        let chosen = choose(&challenge, &self.means, &self.aim.name)?;
        if self.args.dry_run {
            let remaining = self.book.remaining(&self.means, Clock::default().now())?;
            return dry_run::dry(self.session, &self.aim, &self.means, &chosen, remaining).await;
        }
        self.pay(&challenge, &chosen).await
    }

    async fn unpaid(&self) -> Result<Reply> {
        let request = self.seller.ask(&HeaderMap::new(), UNPAID, &mut |reported| dry_run::progress(&reported)).await;
        request.map_err(|lost| match lost {
            LostReply::TooLarge(_) => Error::refused(format!("{}: {}", self.aim.name, lost.reason())),
            LostReply::Unsent(_) | LostReply::Sent(_) | LostReply::Late => {
                Error::new(Exit::Away, format!("{} does not answer: {}", self.aim.url.origin().ascii_serialization(), lost.reason()))
            }
        })
    }

    async fn pay(self, challenge: &Challenge, chosen: &ChosenTerms) -> Result {
        let path = key_file::path(self.args.key_file.as_deref(), self.session.profile.key_file.as_deref())?;
        let key = key_file::read(&path)?;
        let request = self.aim.request(&key.address().to_string());
        self.check_open(&request).await?;
        if !chosen.token.network.is_test && !self.args.yes {
            let max = if chosen.ask.scheme == Scheme::Upto { "up to " } else { "" };
            let question = format!(
                "pay {max}{} {} of real money on {} to {} for {}?",
                usd(chosen.usd),
                chosen.token.symbol,
                chosen.token.network.name,
                chosen.ask.pay_to,
                self.aim.name
            );
            prompt::require_terminal(&question, "--yes")?;
        }
        let now = Clock::default().now();
        let draft = Draft::new(chosen, &key, now)?;
        let open = self.open(&draft.payment_id, chosen.usd, request, now);
        let id = open.id.clone();
        self.count(open)?;
        let written = draft.signed(&self.aim, challenge, chosen, &key).and_then(|sent| self.write(sent));
        self.send(&id, written).await
    }

    /// Pays with the credit, at a quoted price.
    async fn by_credit(self) -> Result {
        let now = Clock::default().now();
        let sent = credit::by_credit(self.session, &self.aim, now).await?;
        if sent.usd > self.means.max {
            return Err(over_limit(&self.aim.name, Scheme::Exact, sent.usd, &self.means));
        }
        if self.args.dry_run {
            let remaining = self.book.remaining(&self.means, now)?;
            return dry_run::dry_by_credit(self.session, &self.aim, &self.means, sent.usd, remaining);
        }
        let request = self.aim.request("credit");
        self.check_open(&request).await?;
        let open = self.open(&sent.payment_id, sent.usd, request, now);
        let id = open.id.clone();
        self.count(open)?;
        let written = self.write(sent);
        self.send(&id, written).await
    }

    fn open(&self, id: &PaymentId, price: MicroUsd, request: String, made_at: Timestamp) -> OpenPayment {
        OpenPayment { id: id.to_string(), profile: self.means.profile.clone(), micros: price.0, request, made_at }
    }

    fn write(&self, sent: SentPayment) -> Result<LockedRecord> {
        self.records.prune(&self.book.open()?, Clock::default().now());
        self.records.write(sent)
    }

    /// Sends a payment whose record was stored. Without a record it is not sent and not counted.
    async fn send(self, id: &str, written: Result<LockedRecord>) -> Result {
        let record = match written {
            Ok(record) => record,
            Err(error) => {
                self.book.close(id, MicroUsd::ZERO, Clock::default().now())?;
                return Err(error);
            }
        };
        let Self { session, aim, seller, book, started_at: started, args, .. } = self;
        Sending { session, seller, host: aim.host, record, was_sent: false, book, include: args.include, started_at: started }.send().await
    }

    /// Refuses to pay again for a request that may have been paid, until the host has reported that it was not.
    async fn check_open(&self, request: &str) -> Result {
        if self.args.again {
            return Ok(());
        }
        for open in self.book.open_for(request)? {
            let Ok(id) = open.id.parse::<PaymentId>() else {
                // Not one of our records. It stays counted but blocks nothing.
                self.book.close(&open.id, MicroUsd(open.micros), Clock::default().now())?;
                continue;
            };
            if self.is_in_flight(&open, &id).await? {
                return Err(open_payments(&open.id));
            }
            if !self.is_open(&open)? {
                // It ended meanwhile.
                continue;
            }
            let now = Clock::default().now();
            if !self.records.is_there(&id) {
                // The process that counted it died before storing its record, and so before sending it.
                self.book.close(&open.id, MicroUsd::ZERO, now)?;
                continue;
            }
            let outcome = state::ask(&self.seller, &self.aim.host, &id).await;
            if outcome == PaymentState::Untaken {
                let taken = if self.aim.own { MicroUsd::ZERO } else { MicroUsd(open.micros) };
                self.book.close(&open.id, taken, now)?;
                continue;
            }
            let known = if outcome == PaymentState::Settled { "was paid for" } else { "may have been paid for" };
            let error =
                Error::new(Exit::Unknown, format!("the same request {known} already, by {id}, and had no answer.  nothing was signed"));
            return Err(error.hint(format!("ask again with the same payment: tollhouse call --resume {id}")));
        }
        Ok(())
    }

    /// Returns whether another process is working on the payment. A process that sends a payment holds its record; one that has just
    /// counted a payment is about to store its record.
    async fn is_in_flight(&self, open: &OpenPayment, id: &PaymentId) -> Result<bool> {
        let started = Instant::now();
        while !self.records.is_there(id) {
            if open.made_at.plus_millis(WRITING_MILLIS) < Clock::default().now() || !self.is_open(open)? {
                return Ok(false);
            }
            if started.elapsed() > APPEARS_WITHIN {
                return Ok(true);
            }
            sleep(POLL_EVERY).await;
        }
        Ok(self.records.is_held(&open.id))
    }

    fn is_open(&self, open: &OpenPayment) -> Result<bool> {
        Ok(self.book.open()?.contains(&open.id))
    }

    /// Counts a payment that is about to be signed.
    fn count(&self, open: OpenPayment) -> Result {
        match self.args.again {
            true => self.book.count(open, &self.means, &self.aim.name),
            false => self.book.count_alone(open, &self.means, &self.aim.name),
        }
    }
}
