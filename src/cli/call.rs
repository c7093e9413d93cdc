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
    base::{Error, Exit, Result, Role, Session, client::NO_CONNECTION, dollars, private_files, prompt},
    pay::{
        Challenge, ChosenTerms, Draft, LostReply, OpenPayment, PaymentLimits, PaymentState, PaymentTarget, RecordStore, Reply, Seller,
        SentPayment, SpendLog, body_file::BodyFile, choose, credit, key_file, open_payments, over_limit, show, state, target::CallInput,
        usd,
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
    /// Tool, or URL of an x402 resource [default: the folder's]
    target: Option<String>,
    /// JSON input, `@FILE` or `-` [default: `{}`; GET for a URL]
    #[arg(id = "input", long = "json", value_name = "V|@FILE|-")]
    input: Option<String>,
    /// File to send as the body, in place of JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["input", "resume"])]
    body_file: Option<PathBuf>,
    /// Media type of the file [default: by its name]
    #[arg(long = "type", value_name = "TYPE", requires = "body_file")]
    content_type: Option<String>,
    /// Maximum price in USD [default: the profile's, else 0.10]
    #[arg(long, value_name = "USD", value_parser = dollars)]
    max_usd: Option<MicroUsd>,
    /// Show the price, and pay nothing
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Resend a payment that got no answer; it is charged once
    #[arg(long, value_name = "PAYMENT", conflicts_with_all = ["target", "input", "max_usd", "credit", "again", "key_file"])]
    resume: Option<PaymentId>,
    /// Pay with the developer credit stored for the host
    #[arg(long)]
    credit: bool,
    /// Show the tool's progress on standard error
    #[arg(long)]
    stream: bool,
    /// Print status and headers before the response
    #[arg(short = 'i', long = "include")]
    include: bool,
    /// Pay real money without confirmation
    #[arg(long, short = 'y')]
    yes: bool,
    /// Pay even if an earlier payment for the same request is open
    #[arg(long)]
    again: bool,
    /// File with the paying key [default: the profile's or pay.key]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

pub(crate) async fn run(session: &Session, args: Args) -> Result {
    let folder = private_files::state()?.join("payments");
    let (records, spend_log) = (RecordStore::at(&folder), SpendLog::at(&folder));
    let started = Instant::now();
    if let Some(id) = &args.resume {
        let record = records.find(id)?;
        record.sent.check_key(Clock::default().now())?;
        let (request, host) = record.sent.request()?;
        if let Some(file) = &request.file {
            file.read()?;
        }
        let sending = Sending {
            session,
            seller: Seller::new(request)?,
            host,
            record,
            was_sent: true,
            spend_log,
            include: args.include,
            started_at: started,
        };
        return sending.send().await;
    }
    // A caller always pays like everyone else. Managing a tool gives no free calls here.
    if let Some(role) = session.client.chosen().filter(|role| *role != Role::Credit) {
        let error = Error::usage(format!("`--as` selects the {}, but a call is paid with your key or a developer credit", role.label()));
        return Err(error.hint("omit `--as`, or use --credit"));
    }
    let by_credit = args.credit || session.client.chosen() == Some(Role::Credit);
    let target = match &args.target {
        Some(target) => target.clone(),
        None => session.slug(None).map_err(served_or_published)?.to_string(),
    };
    let target = &target;
    let limits = PaymentLimits::of(session.spends_as(), &session.profile, args.max_usd)?;
    let file = args.body_file.as_deref().map(|path| BodyFile::at(path, args.content_type.as_deref())).transpose()?;
    let input = CallInput { json: args.input.as_deref().map(input::read).transpose()?, file };
    let target = PaymentTarget::at(session, target, input, args.stream)?;
    if target.own {
        session.name_dev();
    }
    let seller = Seller::new(target.request.clone())?;
    let call = Call { session, args: &args, limits, target, seller, records, spend_log, started_at: started };
    if by_credit { call.by_credit().await } else { call.ask().await }
}

/// Adds to the hint for a tool that was never published that `dev` can serve it.
fn served_or_published(error: Error) -> Error {
    if error.hint.is_some() { error.hint("publish it: tollhouse deploy, or serve it here: tollhouse dev") } else { error }
}

/// A call before payment.
struct Call<'a> {
    session: &'a Session,
    args: &'a Args,
    limits: PaymentLimits,
    target: PaymentTarget,
    seller: Seller,
    records: RecordStore,
    spend_log: SpendLog,
    started_at: Instant,
}

impl Call<'_> {
    /// Requests without a payment, and pays if one is required.
    async fn ask(self) -> Result {
        let reply = self.unpaid().await?;
        if reply.status != 402 {
            let answer = dry_run::unpaid(&self.seller, &self.target, &reply, self.args.include, self.started_at.elapsed()).await;
            let Err(error) = answer else { return Ok(()) };
            return Err(thrown::placed(self.session, &self.target.name, self.target.own, error).await);
        }
        let unreadable = || Error::refused(format!("`{}` sent an invalid payment challenge", self.target.name));
        let challenge = Challenge::read(&reply.headers, &reply.body).ok_or_else(unreadable)?;
        let chosen = choose(&challenge, &self.limits, &self.target.name)?;
        if self.args.dry_run {
            let remaining = self.spend_log.remaining(&self.limits, Clock::default().now())?;
            return dry_run::dry(self.session, &self.target, &self.limits, &chosen, remaining).await;
        }
        self.pay(&challenge, &chosen).await
    }

    async fn unpaid(&self) -> Result<Reply> {
        // A file is sent once, with its payment.
        if self.target.request.file.is_some()
            && self.target.slug.is_some()
            && let Ok(reply) = self.seller.head(UNPAID).await
            && reply.status == 402
        {
            return Ok(reply);
        }
        let mut printer = show::Printer::new(self.args.include);
        let request = self.seller.ask(&HeaderMap::new(), UNPAID, &mut |arrival| printer.print(arrival)).await;
        request.map_err(|lost| {
            if let LostReply::TooLarge(_) | LostReply::BrokenOff(_) = lost {
                return Error::refused(format!("`{}`: {}", self.target.name, lost.reason()));
            }
            let position = self.target.request.url.origin().ascii_serialization();
            let error = Error::new(Exit::Unavailable, format!("{position} does not answer: {}", lost.reason()));
            // `--url` does not choose the host of a target that is a URL.
            let by_name = self.args.target.as_ref().is_none_or(|target| !target.contains("://"));
            if by_name && matches!(lost, LostReply::Unsent(_)) { error.hint(NO_CONNECTION) } else { error }
        })
    }

    async fn pay(self, challenge: &Challenge, chosen: &ChosenTerms) -> Result {
        let path = key_file::path(self.args.key_file.as_deref(), self.session.profile.key_file.as_deref())?;
        let key = key_file::read(&path)?;
        let request = self.target.request_hash(&key.address().to_string());
        self.check_open(&request).await?;
        if !chosen.token.network.is_test && !self.args.yes {
            let max = if chosen.ask.scheme == Scheme::Upto { "up to " } else { "" };
            let question = format!(
                "pay {max}{} {} of real money on {} to {} for {}?",
                usd(chosen.usd),
                chosen.token.symbol,
                chosen.token.network.name,
                chosen.ask.pay_to,
                self.target.name
            );
            prompt::require_confirmation(&question, "--yes")?;
        }
        let now = Clock::default().now();
        let draft = Draft::new(chosen, &key, now)?;
        let id = draft.payment_id.clone();
        self.complete(&id, chosen.usd, request, now, |call| draft.signed(&call.target, challenge, chosen, &key)).await
    }

    /// Pays with the credit, at a quoted price.
    async fn by_credit(self) -> Result {
        let now = Clock::default().now();
        let sent = credit::by_credit(self.session, &self.target, now).await?;
        if sent.usd > self.limits.max {
            return Err(over_limit(&self.target.name, Scheme::Exact, sent.usd, &self.limits));
        }
        if self.args.dry_run {
            let remaining = self.spend_log.remaining(&self.limits, now)?;
            return dry_run::dry_by_credit(self.session, &self.target, &self.limits, sent.usd, remaining);
        }
        let request = self.target.request_hash("credit");
        self.check_open(&request).await?;
        let (id, price) = (sent.payment_id.clone(), sent.usd);
        self.complete(&id, price, request, now, |_| Ok(sent)).await
    }

    /// Counts a payment, creates and stores it, and sends it. If it cannot be stored, it is neither sent nor counted.
    async fn complete(
        self,
        id: &PaymentId,
        price: MicroUsd,
        request: String,
        made_at: Timestamp,
        create: impl FnOnce(&Self) -> Result<SentPayment>,
    ) -> Result {
        let open = OpenPayment { id: id.to_string(), profile: self.limits.profile.clone(), micros: price.0, request, made_at };
        self.spend_log.count(open, &self.limits, &self.target.name, self.args.again)?;
        let written = create(&self).and_then(|sent| {
            self.records.prune(&self.spend_log.open()?, Clock::default().now());
            self.records.write(sent)
        });
        let record = match written {
            Ok(record) => record,
            Err(error) => {
                self.spend_log.close(id.as_str(), MicroUsd::ZERO, Clock::default().now())?;
                return Err(error);
            }
        };
        let Self { session, target, seller, spend_log, started_at: started, args, .. } = self;
        Sending { session, seller, host: target.host, record, was_sent: false, spend_log, include: args.include, started_at: started }
            .send()
            .await
    }

    /// Refuses to pay again for a request that may have been paid, until the host has reported that it was not.
    async fn check_open(&self, request: &str) -> Result {
        if self.args.again {
            return Ok(());
        }
        for open in self.spend_log.open_for(request)? {
            let Ok(id) = open.id.parse::<PaymentId>() else {
                // Not one of our records. It stays counted but blocks nothing.
                self.spend_log.close(&open.id, MicroUsd(open.micros), Clock::default().now())?;
                continue;
            };
            if self.is_in_flight(&open, &id).await? {
                return Err(open_payments(&open.id));
            }
            if !self.is_open(&open)? {
                // The payment ended while this process asked about it.
                continue;
            }
            let now = Clock::default().now();
            if !self.records.is_there(&id) {
                // The process that counted it died before storing its record, and so before sending it.
                self.spend_log.close(&open.id, MicroUsd::ZERO, now)?;
                continue;
            }
            let outcome = state::ask(&self.seller, &self.target.host, &id).await;
            if outcome == PaymentState::NotCharged {
                let taken = if self.target.own { MicroUsd::ZERO } else { MicroUsd(open.micros) };
                self.spend_log.close(&open.id, taken, now)?;
                continue;
            }
            let known = if outcome == PaymentState::Settled { "was paid" } else { "might have been paid" };
            let error =
                Error::new(Exit::Unknown, format!("the same request {known} already, with {id}, but got no answer.  Nothing was signed"));
            return Err(error.hint(format!("repeat the call with the same payment: tollhouse call --resume {id}")));
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
        Ok(self.spend_log.open()?.contains(&open.id))
    }
}
