//! Conversions of the host's types to those of the API. A field that is missing on either side does not compile.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tollhouse_account::audit;
use tollhouse_api as api;
use tollhouse_capability::LogEntry;
use tollhouse_event::Event;
use tollhouse_money::{
    Credit,
    payout::{Packet, PayoutSettings},
    refund::Refund,
};
use tollhouse_tool::MicroUsd;

/// Encodes limits by name. `limits` must serialize to an object.
pub(super) fn limits(limits: &impl Serialize) -> api::Limits {
    api::Limits(object(json!(limits)))
}

/// Returns the fields of an object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(super) fn audit_entry(entry: audit::Entry) -> api::AuditEntry {
    let audit::Entry { id, at, action, outcome } = entry;
    let (kind, actor) = match action.actor {
        audit::Actor::Admin => (api::ActorKind::Admin, None),
        audit::Actor::Builder { builder_id } => (api::ActorKind::Builder, Some(builder_id)),
    };
    api::AuditEntry {
        id,
        at,
        actor: api::Actor { kind, builder_id: actor },
        method: action.method,
        path: action.path,
        subject: action.subject,
        slug: action.slug,
        builder_id: action.builder_id,
        request_id: action.request_id,
        fields: action.fields,
        outcome,
    }
}

pub(super) fn event(event: &Event) -> api::Event {
    let Event { id, kind, at, endpoint_slug, data } = event.clone();
    api::Event { id, kind: json!(kind).as_str().unwrap_or_default().to_owned(), at, endpoint_slug, data }
}

pub(super) fn log_line(line: &LogEntry) -> api::LogLine {
    let LogEntry { at, level, message, fields, call_id, owner } = line.clone();
    api::LogLine { at, level, message, fields, call_id, owner }
}

pub(super) fn credit(credit: &Credit) -> api::Credit {
    api::Credit {
        credit_id: credit.id.clone(),
        label: credit.label.clone(),
        balance_usd: credit.balance,
        created_at: credit.created_at,
        revoked: credit.revoked.clone(),
        budget: credit.budget(),
        budgets: credit.budgets.clone(),
    }
}

pub(super) fn refund(refund: &Refund) -> api::Refund {
    api::Refund { amount_usd: refund.amount, at: refund.at, transaction: refund.transaction.clone() }
}

pub(super) fn payout_settings(settings: PayoutSettings) -> api::PayoutSettings {
    let PayoutSettings { address, network, asset, minimum_usd, updated_at, revision } = settings;
    api::PayoutSettings { address, network, asset, minimum_usd, updated_at, revision }
}

pub(super) fn payout(packet: &Packet) -> api::Payout {
    let amount_usd = packet.amount();
    let packet = packet.clone();
    api::Payout {
        id: packet.id,
        builder_id: packet.builder_id,
        amount_usd,
        receipt_count: packet.receipt_count,
        digest: packet.digest,
        period: packet.period,
        address: packet.address,
        network: packet.network,
        asset: packet.asset,
        created_at: packet.created_at,
        withheld_usd: (packet.withheld > 0).then_some(MicroUsd(packet.withheld)),
        status: packet.status,
        signature: packet.signature,
        updated_at: packet.updated_at,
        transaction: packet.transaction,
        reason: packet.reason,
        warning: None,
        builder_name: None,
    }
}
