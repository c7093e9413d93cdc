//! Ways to call a tool: commands and scripts that work as copied.

use maud::{Markup, html};
use serde_json::Value;
use tollhouse_tool::MicroUsd;

use super::{
    code,
    sample::{self, quoted},
};

/// The data for the examples.
pub(crate) struct SnippetParts<'a> {
    /// Public URL of the host.
    pub(crate) base: &'a str,
    pub(crate) slug: &'a str,
    pub(crate) input: Value,
    /// Networks on which the tool is paid, as CAIP-2 ids. Empty if it is free.
    pub(crate) networks: Vec<&'a str>,
    /// Maximum price of a call. The scripts sign no more than that.
    pub(crate) max_price: MicroUsd,
}

impl SnippetParts<'_> {
    fn url(&self) -> String {
        format!("{}/tools/{}", self.base, self.slug)
    }

    /// Returns a network that Ethereum clients can pay on.
    fn evm(&self) -> Option<&str> {
        self.networks.iter().copied().find(|network| network.starts_with("eip155:"))
    }

    /// Returns a call with `curl`. For a paid tool its answer is the challenge.
    pub(crate) fn curl(&self) -> String {
        let head = if self.networks.is_empty() { "" } else { "i" };
        format!(
            "curl -s{head} \\\n  {} \\\n  -H 'content-type: application/json' \\\n  -d {}",
            self.url(),
            quoted(&sample::json(&self.input))
        )
    }

    /// Returns a call paid by credit instead of a wallet.
    fn credit(&self) -> String {
        format!("{} \\\n  -H \"x-developer-credit: $CREDIT\"", self.curl().replacen("curl -si", "curl -s", 1))
    }

    /// Returns a module that calls the tool with the standard client, and pays if required.
    pub(crate) fn script(&self) -> String {
        let request = format!(
            "{{\n  method: \"POST\",\n  headers: {{ \"content-type\": \"application/json\" }},\n  body: JSON.stringify({}),\n}}",
            sample::json(&self.input)
        );
        let Some(network) = self.evm() else {
            return format!("const answer = await fetch(\"{}\", {request});\nconsole.log(await answer.text());\n", self.url());
        };
        format!(
            "// npm install @x402/fetch @x402/evm viem\n\
             import {{ wrapFetchWithPaymentFromConfig }} from \"@x402/fetch\";\n\
             import {{ ExactEvmScheme, UptoEvmScheme }} from \"@x402/evm\";\n\
             import {{ privateKeyToAccount }} from \"viem/accounts\";\n\n\
             const account = privateKeyToAccount(process.env.PRIVATE_KEY);\n\
             const schemes = [ExactEvmScheme, UptoEvmScheme].map((Scheme) => ({{ network: \"{network}\", client: new Scheme(account) }}));\n\
             const spendControls = {{ maxAmountPerPayment: \"${}\" }};\n\
             const pay = wrapFetchWithPaymentFromConfig(fetch, {{ schemes, spendControls }});\n\
             const answer = await pay(\"{}\", {request});\n\
             console.log(answer.headers.get(\"x-receipt-id\"), await answer.text());\n",
            self.max_price,
            self.url()
        )
    }

    /// Returns the same in Python.
    fn python(&self) -> String {
        let (url, json) = (self.url(), sample::json(&self.input));
        // All tokens that hosts accept have six decimals.
        let MicroUsd(max) = self.max_price;
        // A raw string cannot contain its own quotes, but a JSON string is also a Python string.
        let content = if json.contains("'''") { Value::String(json).to_string() } else { format!("r'''{json}'''") };
        format!(
            "# pip install \"x402[httpx,evm]\"\n\
             import asyncio, os\n\
             from eth_account import Account\n\
             from x402 import max_amount, x402Client\n\
             from x402.http.clients.httpx import x402HttpxClient\n\
             from x402.mechanisms.evm import EthAccountSigner\n\
             from x402.mechanisms.evm.exact.register import register_exact_evm_client\n\n\
             async def main():\n\
             \x20   client = x402Client()\n\
             \x20   signer = EthAccountSigner(Account.from_key(os.environ[\"PRIVATE_KEY\"]))\n\
             \x20   register_exact_evm_client(client, signer, policies=[max_amount({max})])\n\
             \x20   # No call takes longer than 300 seconds.\n\
             \x20   async with x402HttpxClient(client, timeout=330) as payer:\n\
             \x20       answer = await payer.post(\"{url}\", content={content}, headers={{\"content-type\": \"application/json\"}})\n\
             \x20   print(answer.headers.get(\"x-receipt-id\"), answer.text)\n\n\
             asyncio.run(main())\n"
        )
    }

    /// Returns the configuration for an MCP client.
    fn mcp(&self) -> String {
        format!(
            "{{\n  \"mcpServers\": {{\n    \"tollhouse\": {{ \"type\": \"http\", \"url\": \"{}/ai/mcp?tools={}\" }}\n  }}\n}}",
            self.base, self.slug
        )
    }

    /// Shows all ways, with the first one open.
    pub(crate) fn all(&self) -> Markup {
        let paid = !self.networks.is_empty();
        html! {
            details.way open {
                summary { "curl" }
                (code::block(if paid { "Get the payment terms" } else { "Call the tool" }, "sh", &self.curl()))
            }
            details.way { summary { "JavaScript" } (code::block("call.mjs", "js", &self.script())) }
            @if self.evm().is_some() {
                details.way { summary { "Python" } (code::block("call.py", "py", &self.python())) }
            }
            details.way {
                summary { "MCP" }
                (code::block("Client configuration", "json", &self.mcp()))
                @if paid {
                    p.note { "If a client cannot pay, use prepaid credit: add the header " code { "X-Developer-Credit" } " to this configuration." }
                }
            }
            @if paid {
                details.way {
                    summary { "Prepaid credit" }
                    (code::block("Call with the token in $CREDIT", "sh", &self.credit()))
                }
            }
        }
    }
}
