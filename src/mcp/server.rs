//! The server's methods: the handler for rmcp.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use axum::http::{Request, request::Parts};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, CompleteRequestMethod,
        CompleteRequestParams, CompleteResult, ConstString as _, CustomRequest, CustomResult, DiscoverResult, ErrorCode, GetTaskParams,
        GetTaskResult, Implementation, InitializeRequestParams, InitializeResult, JsonObject, ListPromptsRequestMethod, ListPromptsResult,
        ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter, SubscriptionsListenRequestParams,
        Tool, UpdateTaskParams,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, value::to_raw_value};
use tollhouse_base::{
    deserialize_error::{self, DeserializeError},
    id::RequestId,
    offload::run_blocking,
};
use tollhouse_front::{ApiError, Code, REQUEST, peer};
use tollhouse_store::StoreError;
use tollhouse_telemetry::counters::MCP_REQUESTS;

use super::{
    accepted_forms::{JsonOnly, RawMessage},
    arguments::Arguments,
    call,
    extension::{self, EXTENSION},
    fast_path::has_cursor,
    front::{McpFront, NAME, VERSION},
    progress::Subscriber,
    raw_result::RawResultSlot,
    refusal::{self, error_data_as},
    request::CallRequest,
    revision::{Era, VERSIONS},
    services::Services,
    tool_filter::ToolFilter,
    tools,
};

/// How long a client can cache the server's capabilities, in milliseconds.
const DISCOVER_TTL_MS: u64 = 3_600_000;

/// The address of a request without a connection.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Methods whose parameters rmcp parses. With invalid parameters they arrive as custom requests.
const KNOWN_METHODS: &[&str] =
    &["initialize", "server/discover", "tools/list", "tools/call", "tasks/get", "tasks/update", "tasks/cancel", "subscriptions/listen"];

/// The server of the host. Cloning it is cheap.
#[derive(Clone)]
pub(super) struct McpServer {
    pub(super) front: Arc<McpFront>,
}

impl McpServer {
    pub(super) fn new(services: Services) -> Self {
        Self { front: Arc::new(McpFront::new(services)) }
    }
}

fn modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Returns the tool filter in the URL of a request.
fn narrowed(context: &RequestContext<RoleServer>) -> ToolFilter {
    parts(context).map_or(ToolFilter::NOT, ToolFilter::of)
}

/// Returns the HTTP request, which the transport has attached.
fn parts(context: &RequestContext<RoleServer>) -> Option<&Parts> {
    context.extensions.get()
}

/// Returns a method error with the id of its request.
fn refused(context: &RequestContext<RoleServer>, number: ErrorCode, fault: &ApiError) -> ErrorData {
    let describe = || error_data_as(number, fault);
    match parts(context).and_then(|parts| parts.extensions.get::<RequestId>()) {
        Some(id) => REQUEST.sync_scope(id.clone(), describe),
        None => describe(),
    }
}

fn no_method(context: &RequestContext<RoleServer>, method: &str) -> ErrorData {
    refused(context, ErrorCode::METHOD_NOT_FOUND, &refusal::no_method(method))
}

fn no_task(context: &RequestContext<RoleServer>) -> ErrorData {
    refused(context, ErrorCode::INVALID_PARAMS, &ApiError::new(Code::NotFound, "no task has this id"))
}

/// Returns why the parameters of a known method are invalid.
fn misread(request: &CustomRequest) -> ApiError {
    let none = Value::Null;
    let params = request.params.as_ref().unwrap_or(&none);
    let misfit = match (request.method.as_str(), params) {
        (_, Value::Null) => Some(DeserializeError { pointer: String::new(), message: "they are missing".to_owned() }),
        ("initialize", _) => deserialize_error::json::<InitializeRequestParams>(params).err(),
        ("tools/call", _) => deserialize_error::json::<CallToolRequestParams>(params).err(),
        ("tools/list", _) => deserialize_error::json::<PaginatedRequestParams>(params).err(),
        ("tasks/get", _) => deserialize_error::json::<GetTaskParams>(params).err(),
        ("tasks/update", _) => deserialize_error::json::<UpdateTaskParams>(params).err(),
        ("tasks/cancel", _) => deserialize_error::json::<CancelTaskParams>(params).err(),
        ("subscriptions/listen", _) => deserialize_error::json::<SubscriptionsListenRequestParams>(params).err(),
        _ => None,
    };
    let method = &request.method;
    match misfit {
        Some(DeserializeError { pointer, message }) => ApiError::invalid(
            Code::InvalidRequest,
            format!("the params of `{method}` do not read: {message}"),
            &format!("/params{pointer}"),
        ),
        None => ApiError::bad_request(format!("the params of `{method}` do not read")),
    }
}

fn unavailable(context: &RequestContext<RoleServer>, error: StoreError) -> ErrorData {
    refused(context, ErrorCode::INTERNAL_ERROR, &error.into())
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_tasks();
        let mut capabilities = capabilities.build();
        capabilities.extensions.get_or_insert_default().insert(EXTENSION.to_owned(), JsonObject::new());
        let server = Implementation::new(NAME, VERSION).with_title("Tollhouse").with_website_url(&self.front.services.base_url);
        let instructions = "Tools of many builders, some paid per call. A paid tool that is called without payment answers with an x402 \
            challenge; call it again with the payment in `_meta[\"x402/payment\"]`. Only successful calls are charged, and \
            repeating a call with the same payment and arguments gives the same answer again. `search_tools` finds tools by words, \
            and `quote_tool` says what a call costs, at a price that holds for some minutes.";
        ServerConfig::new(capabilities)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_server_info(server)
            .with_instructions(instructions)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    /// Older revisions send list changes on a session's stream, which a stateless server does not have.
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        MCP_REQUESTS.count(["initialize"]);
        context.peer.set_peer_info(request.clone());
        let mut info = self.negotiate_initialize(&request)?;
        info.capabilities.extensions = None;
        if let Some(tools) = &mut info.capabilities.tools {
            tools.list_changed = None;
        }
        Ok(info)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        MCP_REQUESTS.count(["server/discover"]);
        let discovered = DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info());
        Ok(discovered.with_ttl_ms(DISCOVER_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        MCP_REQUESTS.count(["tools/list"]);
        let cursor = request.and_then(|request| request.cursor);
        let unread =
            cursor.is_none() && parts(&context).and_then(|parts| parts.extensions.get()).is_some_and(|RawMessage(body)| has_cursor(body));
        let address = parts(&context).map(|parts| peer(&parts.extensions));
        let limits = &self.front.services.shared.limits;
        let turn = limits.turn(address.unwrap_or(NOBODY)).await.map_err(|fault| refused(&context, ErrorCode::INVALID_REQUEST, &fault))?;
        let page = match unread {
            true => None,
            false => turn
                .during(tools::page(&self.front.services, &narrowed(&context), cursor.as_deref()))
                .await
                .map_err(|error| unavailable(&context, error))?,
        };
        let wrong = || ApiError::bad_request("`cursor` is not one that this server gave");
        let page = page.ok_or_else(|| refused(&context, ErrorCode::INVALID_PARAMS, &wrong()))?;
        let era = if modern(&context) { Era::Modern } else { Era::Legacy };
        let mut result = page.list_result(&self.front, era);
        let bytes = page.json(era).iter().map(|json| json.get().len()).sum();
        result.tools = run_blocking(bytes, || turn.work(|| page.tools.iter().map(|listed| listed.tool(era)).collect())).await;
        Ok(result)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        // Never absent, because the transport attaches it.
        let none = || Request::new(()).into_parts().0;
        let parts = parts(&context).map_or_else(|| Cow::Owned(none()), Cow::Borrowed);
        let era = if modern(&context) { Era::Modern } else { Era::Legacy };
        let client = context.client_capabilities().filter(|_| era == Era::Modern);
        let extension = client.as_ref().is_some_and(extension::declared);
        let streams = parts.extensions.get::<JsonOnly>().is_none();
        let token = context.meta.get_progress_token().filter(|_| streams);
        let query = CallRequest {
            id: &context.id,
            name: &request.name,
            meta: &context.meta,
            parts: &parts,
            era,
            takes_tasks: client.is_some_and(|client| client.supports_tasks()),
            subscriber: token.map(|token| Subscriber { peer: &context.peer, token }),
            caller_gone: Some(&context.ct),
        };
        let id = parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
        let sent = parts.extensions.get().map(|RawMessage(body)| body);
        let arguments = Arguments::of(sent, request.arguments).await;
        let answer = REQUEST.scope(id, call::perform(&self.front, query, arguments)).await?;
        if let CallToolResponse::Complete(_) = answer.response
            && let Some(alongside) = parts.extensions.get::<RawResultSlot>()
        {
            let (bytes, written) = (answer.bytes(), answer.written(era, extension));
            alongside.set(run_blocking(bytes, || to_raw_value(&written)).await.expect("results have text keys"));
            return Ok(CallToolResult::success(vec![]).into());
        }
        Ok(answer.response)
    }

    async fn get_task(&self, request: GetTaskParams, context: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        MCP_REQUESTS.count(["tasks/get"]);
        let found = self.front.tasks.get(&request.task_id).await;
        let mut checked = found.map_err(|error| unavailable(&context, error))?.ok_or_else(|| no_task(&context))?;
        self.front.sign(&mut checked.task.meta);
        if let Some(alongside) = parts(&context).and_then(|parts| parts.extensions.get::<RawResultSlot>())
            && let Some(written) = checked.written()
        {
            alongside.set(written);
        }
        Ok(checked.task)
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        MCP_REQUESTS.count(["tasks/cancel"]);
        match self.front.tasks.cancel(&request.task_id).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(no_task(&context)),
            Err(error) => Err(unavailable(&context, error)),
        }
    }

    /// No task of this host asks for input, so there is nothing to update.
    async fn update_task(&self, request: UpdateTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        MCP_REQUESTS.count(["tasks/update"]);
        match self.front.tasks.has(&request.task_id).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(no_task(&context)),
            Err(error) => Err(unavailable(&context, error)),
        }
    }

    /// Returns a tool for rmcp to check `Mcp-Param-*` headers against its schema, if the schema maps some.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        // The transport has loaded the tool and holds it.
        let listed = tools::found(&self.front.services, name)?;
        Some(Tool::new(listed.name.to_string(), "", Arc::clone(listed.in_headers.as_ref()?)))
    }

    /// The transport answers valid subscriptions before they reach this method.
    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        None
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {}

    async fn on_custom_request(&self, request: CustomRequest, context: RequestContext<RoleServer>) -> Result<CustomResult, ErrorData> {
        MCP_REQUESTS.count(["other"]);
        let removed = request.method == "initialize" && modern(&context);
        if KNOWN_METHODS.contains(&request.method.as_str()) && !removed {
            let fault = misread(&request);
            return Err(refused(&context, ErrorCode::INVALID_PARAMS, &fault));
        }
        Err(no_method(&context, &request.method))
    }

    // Unsupported methods return errors, where rmcp's defaults are empty lists.

    async fn complete(&self, _: CompleteRequestParams, context: RequestContext<RoleServer>) -> Result<CompleteResult, ErrorData> {
        Err(no_method(&context, CompleteRequestMethod::VALUE))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(no_method(&context, ListPromptsRequestMethod::VALUE))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(no_method(&context, ListResourcesRequestMethod::VALUE))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(no_method(&context, ListResourceTemplatesRequestMethod::VALUE))
    }
}
