//! The server's methods: the handler for rmcp.

use std::{borrow::Cow, sync::Arc};

use axum::http::request::Parts;
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
use serde::de::DeserializeOwned;
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
    answer::{EXTENSION, declares_extension},
    call,
    cancel::is_long,
    front::{McpFront, NAME, VERSION},
    message::{CALL, DISCOVER, INITIALIZE, LIST, LISTEN},
    progress::Subscriber,
    raw_result::RawRequest,
    refusal::{self, error_data_as},
    request::CallRequest,
    revision::{Era, VERSIONS},
    services::Services,
    tool_filter::ToolFilter,
    tools,
};

/// How long a client can cache the server's capabilities, in milliseconds.
const DISCOVER_TTL_MS: u64 = 3_600_000;

const GET_TASK: &str = "tasks/get";
const UPDATE_TASK: &str = "tasks/update";
const CANCEL_TASK: &str = "tasks/cancel";

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

type Context = RequestContext<RoleServer>;

fn era(context: &Context) -> Era {
    let is_modern = context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    if is_modern { Era::Modern } else { Era::Legacy }
}

fn parts(context: &Context) -> &Parts {
    context.extensions.get().expect("rmcp attaches the HTTP request")
}

fn raw(context: &Context) -> &RawRequest {
    parts(context).extensions.get().expect("the transport attaches it")
}

/// Returns a method error with the id of its request.
fn refused(context: &Context, number: ErrorCode, fault: &ApiError) -> ErrorData {
    let describe = || error_data_as(number, fault);
    match parts(context).extensions.get::<RequestId>() {
        Some(id) => REQUEST.sync_scope(id.clone(), describe),
        None => describe(),
    }
}

fn no_method(context: &Context, method: &str) -> ErrorData {
    refused(context, ErrorCode::METHOD_NOT_FOUND, &refusal::no_method(method))
}

fn no_task(context: &Context) -> ErrorData {
    refused(context, ErrorCode::INVALID_PARAMS, &ApiError::new(Code::NotFound, "no task has this id"))
}

/// Returns why the parameters of a request are invalid, or `None` if rmcp does not parse those of its method.
fn invalid_params(request: &CustomRequest) -> Option<ApiError> {
    fn check<T: DeserializeOwned>(params: Option<&Value>) -> Option<DeserializeError> {
        match params {
            None | Some(Value::Null) => Some(DeserializeError { pointer: String::new(), message: "the params are missing".to_owned() }),
            Some(params) => deserialize_error::json::<T>(params).err(),
        }
    }
    let (method, params) = (&*request.method, request.params.as_ref());
    let error = match method {
        INITIALIZE => check::<InitializeRequestParams>(params),
        CALL => check::<CallToolRequestParams>(params),
        LIST => check::<PaginatedRequestParams>(params),
        GET_TASK => check::<GetTaskParams>(params),
        UPDATE_TASK => check::<UpdateTaskParams>(params),
        CANCEL_TASK => check::<CancelTaskParams>(params),
        LISTEN => check::<SubscriptionsListenRequestParams>(params),
        DISCOVER => check::<Value>(params),
        _ => return None,
    };
    Some(match error {
        Some(DeserializeError { pointer, message }) => ApiError::invalid(
            Code::InvalidRequest,
            format!("the params of `{method}` are invalid: {message}"),
            &format!("/params{pointer}"),
        ),
        None => ApiError::bad_request(format!("the params of `{method}` are invalid")),
    })
}

fn unavailable(context: &Context, error: StoreError) -> ErrorData {
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
    async fn initialize(&self, request: InitializeRequestParams, context: Context) -> Result<InitializeResult, ErrorData> {
        MCP_REQUESTS.count([INITIALIZE]);
        context.peer.set_peer_info(request.clone());
        let mut info = self.negotiate_initialize(&request)?;
        info.capabilities.extensions = None;
        if let Some(tools) = &mut info.capabilities.tools {
            tools.list_changed = None;
        }
        Ok(info)
    }

    async fn discover(&self, _: Context) -> Result<DiscoverResult, ErrorData> {
        MCP_REQUESTS.count([DISCOVER]);
        let discovered = DiscoverResult::from_server_info(VERSIONS.to_vec(), self.get_info());
        Ok(discovered.with_ttl_ms(DISCOVER_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(&self, request: Option<PaginatedRequestParams>, context: Context) -> Result<ListToolsResult, ErrorData> {
        MCP_REQUESTS.count([LIST]);
        let cursor = request.and_then(|request| request.cursor);
        let limits = &self.front.services.shared.limits;
        let turn =
            limits.turn(peer(&parts(&context).extensions)).await.map_err(|fault| refused(&context, ErrorCode::INVALID_REQUEST, &fault))?;
        let page = if cursor.is_none() && raw(&context).has_cursor {
            None
        } else {
            let filter = ToolFilter::of(parts(&context));
            turn.during(tools::page(&self.front.services, &filter, cursor.as_deref()))
                .await
                .map_err(|error| unavailable(&context, error))?
        };
        let wrong = || ApiError::bad_request("`cursor` is not from this server");
        let page = page.ok_or_else(|| refused(&context, ErrorCode::INVALID_PARAMS, &wrong()))?;
        let era = era(&context);
        let mut result = page.list_result(&self.front, era);
        let bytes = page.json(era).iter().map(|json| json.get().len()).sum();
        result.tools = run_blocking(bytes, || turn.work(|| page.tools.iter().map(|listed| listed.tool(era)).collect())).await;
        Ok(result)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let (parts, raw, era) = (parts(&context), raw(&context), era(&context));
        let client = context.client_capabilities().filter(|_| era == Era::Modern);
        let extension = client.as_ref().is_some_and(declares_extension);
        let token = context.meta.get_progress_token().filter(|token| !raw.json_only && !is_long(&token.0));
        let call = CallRequest {
            id: &context.id,
            name: &request.name,
            meta: &context.meta,
            parts,
            era,
            takes_tasks: client.is_some_and(|client| client.supports_tasks()),
            subscriber: token.map(|token| Subscriber { peer: &context.peer, token }),
            caller_gone: Some(&context.ct),
        };
        let id = parts.extensions.get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
        // If a message was left to rmcp, for example because it has duplicate fields, use the parsed ones.
        let arguments = raw.arguments.clone().unwrap_or_else(|| request.arguments.unwrap_or_default().into());
        let answer = REQUEST.scope(id, call::perform(&self.front, call, arguments)).await?;
        if let CallToolResponse::Complete(_) = answer.response {
            let (bytes, body) = (answer.bytes(), answer.written(era, extension));
            raw.set_result(run_blocking(bytes, || to_raw_value(&body)).await.expect("results have text keys"));
            return Ok(CallToolResult::success(vec![]).into());
        }
        Ok(answer.response)
    }

    async fn get_task(&self, request: GetTaskParams, context: Context) -> Result<GetTaskResult, ErrorData> {
        MCP_REQUESTS.count([GET_TASK]);
        let found = self.front.tasks.get(&request.task_id).await.map_err(|error| unavailable(&context, error))?;
        let mut view = found.ok_or_else(|| no_task(&context))?;
        self.front.sign(&mut view.task.meta);
        if let Some(json) = view.written() {
            raw(&context).set_result(json);
        }
        Ok(view.task)
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: Context) -> Result<(), ErrorData> {
        MCP_REQUESTS.count([CANCEL_TASK]);
        match self.front.tasks.cancel(&request.task_id).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(no_task(&context)),
            Err(error) => Err(unavailable(&context, error)),
        }
    }

    /// No task of this host asks for input, so there is nothing to update.
    async fn update_task(&self, request: UpdateTaskParams, context: Context) -> Result<(), ErrorData> {
        MCP_REQUESTS.count([UPDATE_TASK]);
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

    async fn on_custom_request(&self, request: CustomRequest, context: Context) -> Result<CustomResult, ErrorData> {
        MCP_REQUESTS.count(["other"]);
        let is_removed = request.method == INITIALIZE && era(&context) == Era::Modern;
        Err(match invalid_params(&request).filter(|_| !is_removed) {
            Some(fault) => refused(&context, ErrorCode::INVALID_PARAMS, &fault),
            None => no_method(&context, &request.method),
        })
    }

    // Unsupported methods return errors, where rmcp's defaults are empty lists.

    async fn complete(&self, _: CompleteRequestParams, context: Context) -> Result<CompleteResult, ErrorData> {
        Err(no_method(&context, CompleteRequestMethod::VALUE))
    }

    async fn list_prompts(&self, _: Option<PaginatedRequestParams>, context: Context) -> Result<ListPromptsResult, ErrorData> {
        Err(no_method(&context, ListPromptsRequestMethod::VALUE))
    }

    async fn list_resources(&self, _: Option<PaginatedRequestParams>, context: Context) -> Result<ListResourcesResult, ErrorData> {
        Err(no_method(&context, ListResourcesRequestMethod::VALUE))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(no_method(&context, ListResourceTemplatesRequestMethod::VALUE))
    }
}
