//! The stored format of sales. Earlier versions stored no refunds.

use serde::Deserialize;
use tollhouse_base::id::EndpointId;
use tollhouse_store::{Formatted, read_postcard, write_postcard};
use tollhouse_tool::Slug;

use super::{Sale, SaleTotals};

/// A sale in formats 0 and 1, without refunds.
#[derive(Deserialize)]
struct SaleBeforeRefunds {
    endpoint: EndpointId,
    slug: Slug,
    /// Calls, paid calls, failed calls, gross, fees, net.
    totals: [u64; 6],
}

impl Formatted for Sale {
    const FORMAT: u8 = 2;

    fn write(&self, out: &mut Vec<u8>) {
        write_postcard(self, out);
    }

    fn read(format: u8, bytes: &[u8]) -> Option<Self> {
        match format {
            0 | 1 => {
                let SaleBeforeRefunds { endpoint, slug, totals } = read_postcard(bytes)?;
                let [calls, paid_calls, failed_calls, gross, fees, net] = totals;
                let totals = SaleTotals { calls, paid_calls, failed_calls, gross, fees, net, ..SaleTotals::default() };
                Some(Self { endpoint, slug, totals })
            }
            Self::FORMAT => read_postcard(bytes),
            _ => None,
        }
    }
}
