#!/usr/bin/env python3
"""Renames modules, types, functions, fields and locals to the field's terms.

Run it in a clean checkout: `python3 xtask/moves/rename.py`, then `cargo fmt`. It reads all sources, resolves names by modules, `use`
and, for fields and methods, by the type of what stands before the dot as far as that is written near; an entry of the table that
matches nothing is a warning. `--dry-run` writes nothing, `--unsure` lists the places where a name could have been of several.

The table has a file, then what that file defines: `Old -> New` a type, a function, a constant; `Type.old -> new` a field, a method or a
variant; `mod -> new` the file's module; `let old -> new` locals and parameters in that file; `.old -> new` a field or a method there
whose type is not found.
"""

TABLE = r"""
sandbox/fair/src/lib.rs
    Fair -> FairSemaphore; Line -> OwnerQueue; Leave -> FairPermit
sandbox/pool/src/alarm.rs
    Round -> WatchdogTick; Rounds -> TickSchedule; Silenced -> SilenceGuard
sandbox/pool/src/budget.rs
    Seen -> BudgetReport
sandbox/pool/src/checkout.rs
    Wanted -> WorkerRequest; Used -> CpuTimeSink; Starting -> StartingWorker
sandbox/pool/src/exchange/drive.rs
    Asked -> ExchangeParams; Begin -> StartMessage; Running -> RunningCall
sandbox/pool/src/exchange/end.rs
    Clean -> CleanEnd; Ended -> ExchangeEnd; Cut -> Interruption
sandbox/pool/src/exchange/ops.rs
    Answered -> OpAnswer; Begun -> StartedOp; Waiting -> PendingOp
sandbox/pool/src/exchange/tests/ends.rs
    By -> WorkerEnd
sandbox/pool/src/faults.rs
    Whose -> Blame
sandbox/pool/src/flow.rs
    Flow -> FlowControl; Share -> OwnerShare; Account -> CallAccount
sandbox/pool/src/groups.rs
    Kept -> GroupState; Bounds -> GroupLimits
sandbox/pool/src/groups/own.rs
    Own -> OwnGroup
sandbox/pool/src/job.rs
    Ran -> CompletedRun
sandbox/pool/src/lease.rs
    mod -> worker_lease; Lease -> WorkerLease
sandbox/pool/src/places.rs
    mod -> process_slots; Places -> ProcessSlots; Place -> ProcessSlot; Lack -> SlotShortage; Held -> HeldSlot; Waits -> SlotWaiter
sandbox/pool/src/process.rs
    Holding -> LoadedCode
sandbox/pool/src/reaper.rs
    Ended -> KilledProcess; Exit -> ProcessExit; Adopted -> ProcessGuard
sandbox/pool/src/scheduler.rs
    Waiting -> QueueGuard
sandbox/pool/src/scheduler/line.rs
    mod -> wait_queue; Line -> WaitQueue; Place -> QueuePosition
sandbox/pool/src/scheduler/queue.rs
    Next -> NextSlot
sandbox/pool/src/scheduler/rules.rs
    Ask -> AdmissionRequest
sandbox/pool/src/scheduler/waiter.rs
    Granted -> WaiterGrant; Turn -> WaiterHandle
sandbox/pool/src/spares.rs
    Blank -> SpareWorker; Booting -> BootingSpare
sandbox/pool/src/spawner.rs
    Order -> SpawnRequest; Delivery -> SpawnedProcess; Starter -> SpawnerThread
sandbox/pool/src/users.rs
    NoRange -> InvalidUserRange; Turn -> UserAllocator
sandbox/pool/src/watchdog.rs
    Look -> WatchdogFinding; Watch -> WatchedBudget
sandbox/pool/src/zygote.rs
    Line -> ZygoteSlot; Terms -> WorkerSpec; Newborn -> ForkedWorker; Census -> ZygoteCounts
sandbox/pool/tests/pool/house.rs
    mod -> test_pool; House -> TestPool
sandbox/protocol/src/held.rs
    mod -> heap_size; Held -> HeapSize
sandbox/protocol/src/jail.rs
    Refused -> LayerRefusal
sandbox/protocol/src/limits.rs
    Row -> LimitRow
sandbox/protocol/src/message.rs
    Said -> ProgressMessage
sandbox/worker/src/budget.rs
    AtWork -> SchemaActivity; Checking -> CheckGuard
sandbox/worker/src/heap.rs
    Limited -> HeapLimitGuard; Counted -> CountingAllocator
sandbox/worker/src/host.rs
    Gone -> HostGone
sandbox/worker/src/jail/calls.rs
    If -> ArgCondition
sandbox/worker/src/op_queue.rs
    Waiting -> PendingOp
sandbox/worker/src/schema.rs
    Fit -> CompiledSchema
sandbox/worker/src/typescript.rs
    First -> FirstDiagnostic
sandbox/worker/src/worker.rs
    Terms -> WorkerOptions; Blank -> BlankWorker
sandbox/worker/src/zygote.rs
    Order -> ForkRequest; Fork -> Forker
sandbox/worker/tests/it/harness.rs
    Ended -> CallEnd
sandbox/worker/tests/it/jail.rs
    Tried -> LayerAttempt

# account
src/account/audit/list.rs
    By -> AuditFilter
src/account/builder.rs
    Verdict -> BuilderDecision; Decision -> BuilderAction; Judged -> BuilderStanding
src/account/seen.rs
    mod -> last_seen; Seen -> LastSeenTimes
src/account/session.rs
    Kind -> SessionKind; Opened -> OpenSession

# app
src/app/check.rs
    Checked -> StoreCheck; Compacted -> CompactReport
src/app/copies.rs
    mod -> backups; Kept -> BackupReport; Running -> ContentGuard
src/app/moving.rs
    mod -> migration; Look -> Verify
src/app/rooms.rs
    mod -> services; Rooms -> Services

# backup
src/backup/control.rs
    Asked -> ControlRequest; Told -> ControlEvent
src/backup/folder.rs
    Folder -> BackupFolder; Unfinished -> UnfinishedDump
src/backup/marks.rs
    mod -> fill_marks; FilledBy -> FillSource; Filling -> FillGuard; How -> FillMode; Departed -> Departure
src/backup/objects.rs
    Named -> NamedObject; Copied -> CopyReport

# base
src/base/aside.rs
    mod -> offload; Bulk -> DropOffThread
src/base/behalf.rs
    mod -> forwarded_for
src/base/causes.rs
    mod -> error_chain
src/base/clock.rs
    Source -> ClockSource; Said -> RemoteTime
src/base/flaws.rs
    mod -> check_report; Flaws -> CheckReport
src/base/folder.rs
    mod -> fsync_dir
src/base/misfit.rs
    mod -> deserialize_error; Misfit -> DeserializeError; Found -> ErrorPath
src/base/misfit/wrong.rs
    mod -> serde_error; Wrong -> SerdeError
src/base/penalty.rs
    mod -> failure_limiter; Penalties -> FailureLimiter
src/base/queues.rs
    mod -> fair_queue; Queues -> FairQueue
src/base/rate.rs
    mod -> rate_limit; Rate -> RateLimiter
src/base/ready.rs
    mod -> cache; Kept -> CacheKey; KeptShared -> SharedCacheKey; Ready -> Cache; Failed -> BuildFailure; Turn -> BuildTurn; Held -> CacheState; One -> CacheEntry; Making -> CacheBuild
src/base/share.rs
    mod -> cpu_share; Shares -> CpuShares; Now -> CpuMoment; Account -> CpuAccount; OverShare -> OverCpuShare; Turn -> CpuTurn; Spent -> CpuTime
src/base/steady.rs
    mod -> clock_steadiness; Look -> ClockReading
src/base/unseen.rs
    mod -> invisible_chars
src/base/uses.rs
    mod -> gcra; Uses -> Gcra; Use -> GcraState
src/base/when.rs
    mod -> time_param; When -> TimeParam

# call
src/call/bought.rs
    mod -> replay; Asked -> ReplayRequest
src/call/desk.rs
    mod -> quote_desk
src/call/digits.rs
    mod -> fingerprint
src/call/done.rs
    mod -> completed; Done -> CompletedCall; Shared -> SharedResult
src/call/dry.rs
    mod -> dry_run
src/call/history.rs
    Placed -> StoredCall; Chapter -> CallBatch
src/call/history/place.rs
    mod -> position; CallPlace -> CallPosition
src/call/history/read.rs
    Ending -> OutcomeFilter
src/call/in_flight.rs
    End -> EndReceiver; Tracked -> TrackedCall; Joinable -> JoinableCall
src/call/metrics.rs
    Adding -> PendingBucket; Changed -> ChangedBuckets; Filling -> BucketWindow
src/call/metrics/bucket.rs
    Lengths -> DurationHistogram
src/call/metrics/figures.rs
    mod -> stats; Counting -> CountProgress
src/call/metrics/kept.rs
    mod -> recent_stats; Figures -> RecentStats; Kept -> RecentDurations; Of -> EndpointDurations
src/call/metrics/read.rs
    Line -> SeriesPoint; Step -> SeriesStep
src/call/new_call.rs
    Why -> FailureReason
src/call/run/builtin/readiness/challenge.rs
    Terms -> AcceptedTerms
src/call/run/isolate.rs
    Hearing -> CallListener
src/call/run/produced.rs
    mod -> handler_result; Produced -> HandlerResult
src/call/run/tally.rs
    mod -> sandbox_counts; Tally -> SandboxCounts; Counts -> EndpointCounts; Counting -> RunGuard
src/call/run/task.rs
    Took -> RunUsage
src/call/tests.rs
    Told -> ScriptedFacilitator
src/call/tests/meanwhile.rs
    mod -> interleaved
src/call/under_way.rs
    mod -> running_call; UnderWay -> RunningCall
src/call/write_behind/waiting.rs
    mod -> pending; Waiting -> PendingWrites; Taken -> TakenWrites

# capability
src/capability/agrees.rs
    mod -> consistency
src/capability/files.rs
    Scoped -> EndpointFiles
src/capability/files/tests.rs
    Overtaken -> OvertakenStore
src/capability/guard/client.rs
    Client -> GuardedClient
src/capability/guard/dns.rs
    Found -> CachedAnswer
src/capability/guard/kept.rs
    mod -> cache; Kept -> AddressCache
src/capability/guard/meter.rs
    Meter -> ConnectionMeter; Reading -> ReadGuard; Metered -> MeteredConnection
src/capability/guard/recorded.rs
    Recorded -> RecordedAnswers
src/capability/guard/system.rs
    System -> SystemResolver; Ask -> LookupFn
src/capability/http.rs
    Counters -> HttpCounters; Outgoing -> OutgoingRequest
src/capability/kv.rs
    Scoped -> EndpointKv; Touched -> TouchedKey
src/capability/log.rs
    Followed -> FollowedLine
src/capability/log/place.rs
    mod -> position; LogPlace -> LogPosition
src/capability/log/waiting.rs
    mod -> pending; Line -> PendingLine; Why -> DropReason; Waiting -> PendingLines; Taken -> TakenLines
src/capability/log/writer.rs
    Writer -> LogWriter; Written -> WrittenSize
src/capability/progress.rs
    Pace -> MessageRate
src/capability/scope.rs
    Turns -> WriteTurns; Turn -> WriteTurn; Alone -> EndpointLocks
src/capability/secret.rs
    Holder -> SecretOwner; OfEndpoint -> EndpointSecrets
src/capability/secret/added.rs
    mod -> added_count; Added -> AddedCount
src/capability/secret/rotate.rs
    Rotated -> RotationReport
src/capability/secret/sealed.rs
    Binding -> SealContext; Sealed -> SealedSecret
src/capability/testing.rs
    Names -> FixedNames; Stuck -> StuckStore
src/capability/till.rs
    mod -> metered_charge; Till -> MeteredCharge

# catalog
src/catalog/agrees.rs
    mod -> consistency
src/catalog/change.rs
    Looked -> CheckedPatch
src/catalog/check.rs
    Checked -> CheckedUpload; Read -> DraftReader
src/catalog/commit.rs
    Before -> StoredEndpoint; Change -> CatalogChange
src/catalog/deletion.rs
    Mark -> DeletionRow
src/catalog/entry.rs
    Marks -> EntryFlags; Asked -> RequestedLimits
src/catalog/find.rs
    Filled -> ListProgress
src/catalog/fit.rs
    mod -> schema_validation; Unfit -> ValidationError; Asker -> ValidationSubject; Checking -> NoGrants
src/catalog/gathered.rs
    mod -> snapshot_builder; Gathered -> SnapshotBuilder
src/catalog/lib.rs
    CatalogRoom -> CatalogCapacity
src/catalog/list.rs
    Page -> EndpointPage
src/catalog/live.rs
    Shown -> ShownEndpoint; Live -> LiveEndpoint; Form -> FrontForm; Fixed -> FixedAnswer
src/catalog/made.rs
    mod -> live_builder
src/catalog/narrow.rs
    Narrowing -> PolicyImpact; Lowered -> LoweredLimits
src/catalog/nearest.rs
    Pattern -> NamePattern
src/catalog/order.rs
    Place -> OrderPosition; By -> OrderKey; In -> OrderedEntry; At -> SoughtPosition; Ordered -> OrderedEntries
src/catalog/owned.rs
    Owned -> OwnedCount
src/catalog/publish.rs
    Readied -> CheckedDraft
src/catalog/rescan.rs
    Rescanned -> RescanReport
src/catalog/retired.rs
    Deleted -> DeletedEndpoint
src/catalog/review.rs
    Verdict -> ReviewDecision; WaitingPlace -> ReviewQueuePosition
src/catalog/safety/check.rs
    Check -> ValueCheck
src/catalog/safety/reach.rs
    Reach -> ContextMember
src/catalog/scan.rs
    Upload -> ScannedUpload
src/catalog/search.rs
    Found -> SearchHits
src/catalog/search/corpus.rs
    Asked -> SampleQuery
src/catalog/search/joined.rs
    mod -> segments
src/catalog/search/recent.rs
    Recent -> RecentIndex; Known -> IndexedText
src/catalog/search/segment.rs
    Place -> Occurrence; Places -> Postings
src/catalog/search/words.rs
    mod -> stemming
src/catalog/shipped.rs
    mod -> seed_tools
src/catalog/snapshot.rs
    Reading -> IndexLoading; Counts -> CatalogCounts; Filter -> EndpointFilter
src/catalog/source.rs
    Laid -> StagedVersion; Object -> VersionObject
src/catalog/standing.rs
    mod -> entitlements; By -> ChangedBy; Reach -> AccessSet; Standing -> Entitlements
src/catalog/tagged.rs
    mod -> tag_index; Tags -> TagIndex; Tagged -> TaggedEntry; At -> TagPosition
src/catalog/tests/deletion.rs
    Stopped -> StoppedBucket; Overtaken -> OvertakenStore
src/catalog/trial.rs
    Tried -> TrialTarget
src/catalog/version.rs
    LetGo -> ReleasedVersion; Prepared -> PreparedHandler
src/catalog/warn.rs
    mod -> warnings
src/catalog/words.rs
    mod -> index_upkeep

# cli
src/cli/base/client.rs
    Who -> CredentialChoice; Asking -> PendingRequest
src/cli/base/credentials.rs
    Kept -> CredentialFile
src/cli/base/dotenv.rs
    Malformed -> MalformedLine
src/cli/base/follow.rs
    Ended -> ConnectionEnd
src/cli/base/global.rs
    Given -> GivenValue; Global -> GlobalArgs
src/cli/base/out.rs
    Out -> Output; Paint -> Style
src/cli/base/pages.rs
    Paging -> PageArgs; Back -> HistoryArgs; Order -> ListOrder; Wanted -> EntryAction
src/cli/base/prompt.rs
    Unseen -> HiddenInput
src/cli/base/session.rs
    Meant -> HostChoice
src/cli/base/table.rs
    Facts -> FactList
src/cli/builders.rs
    JudgeArgs -> DecideArgs
src/cli/change.rs
    BackArgs -> RollbackArgs; Read -> ReadEndpoint
src/cli/check.rs
    Found -> CheckResult
src/cli/credits.rs
    JudgeArgs -> RevokeArgs
src/cli/deploy.rs
    Compared -> PlanParts
src/cli/dev/bench.rs
    mod -> workspace; Bench -> Workspace
src/cli/dev/keys.rs
    Key -> KeyCommand; Keys -> RawKeys
src/cli/dev/known.rs
    mod -> last_upload; Given -> UploadBody; Known -> LastUpload
src/cli/dev/place.rs
    mod -> folder_lock; Here -> LockInfo; Held -> FolderLock
src/cli/dev/publishes.rs
    mod -> publisher; Publishes -> Publisher; Serving -> ServedHost
src/cli/dev/round.rs
    mod -> save_cycle; Step -> SaveStep; Looked -> CheckedFolder; Tell -> StepListener
src/cli/dev/stream.rs
    Happened -> DevEvent
src/cli/dev/tell.rs
    mod -> reporter; Teller -> Reporter
src/cli/dev/watch.rs
    Look -> FileStamp; More -> WatchChange; Watched -> FolderWatcher; Watch -> WatchState
src/cli/host.rs
    Most -> LimitArg
src/cli/keeping.rs
    mod -> credential_lock; Keeping -> CredentialLock
src/cli/key.rs
    Does -> KeyAction
src/cli/local.rs
    Local -> LocalHost
src/cli/logs.rs
    Until -> UntilArgs; Reading -> ReadMode; Telling -> EntryFormat
src/cli/manual.rs
    mod -> man_page
src/cli/misread.rs
    mod -> usage_error
src/cli/operator/doctor/engine.rs
    About -> WorkerInfo
src/cli/operator/doctor/public.rs
    Asker -> PublicClient
src/cli/operator/doctor/told.rs
    mod -> findings; Told -> Findings
src/cli/operator/mend.rs
    mod -> store_admin; Looked -> CheckOutput
src/cli/operator/save.rs
    mod -> backup_cmd; Where -> HostLocation
src/cli/pay/aim.rs
    mod -> target; Aim -> PaymentTarget
src/cli/pay/attempt.rs
    Went -> AttemptOutcome
src/cli/pay/book.rs
    mod -> spend_log; Book -> SpendLog; Pages -> SpendFile; Open -> OpenPayment
src/cli/pay/choose.rs
    Chosen -> ChosenTerms
src/cli/pay/means.rs
    mod -> limits; Means -> PaymentLimits
src/cli/pay/perform.rs
    Ended -> PaymentEnd
src/cli/pay/proof.rs
    Proof -> ReceiptProof
src/cli/pay/record.rs
    Sent -> SentPayment; Noted -> RecordNote; Records -> RecordStore; Record -> LockedRecord
src/cli/pay/reply.rs
    Lost -> LostReply; Beside -> ResultExtras
src/cli/pay/state.rs
    Became -> PaymentState
src/cli/pay/stream.rs
    Told -> ResultEvent; Other -> RawResult
src/cli/plan/there.rs
    mod -> remote; There -> RemoteEndpoint
src/cli/policy.rs
    Sure -> ConfirmArgs
src/cli/pull.rs
    Write -> FileWrite
src/cli/tool/map.rs
    mod -> source_map; Map -> SourceMap; Written -> SourceMapFile
src/cli/tool/program.rs
    Ran -> ProgramEnd
src/cli/tool/scaffold.rs
    Made -> FileOutcome
src/cli/tool/types.rs
    Types -> TypesOutcome
src/cli/tool/wanted.rs
    mod -> changes; Change -> FieldChange
src/cli/trial.rs
    Tried -> CaseResults

# config
src/config/kept.rs
    mod -> retention; KeptFlags -> RetentionFlags; KeptSettings -> RetentionSettings
src/config/layered.rs
    Layered -> LayeredSettings; Given -> OptionalSetting
src/config/secret.rs
    Hidden -> HiddenValue
src/config/told.rs
    mod -> effective; Told -> EffectiveSetting; Wrong -> InvalidSetting; Looked -> SettingsReport; Source -> SettingSource; Setting -> GivenSetting; File -> SettingsFile
src/config/unread.rs
    mod -> parse_error; Unread -> ParseError

# event
src/event/feed.rs
    Crowded -> TooManyFollowers
src/event/keep.rs
    mod -> retention
src/event/place.rs
    mod -> position; EventPlace -> EventPosition
src/event/pull.rs
    Pulled -> PullProgress

# front
src/front/body.rs
    Unread -> BodyError; Gathered -> BodyBuffer; Verbatim -> VerbatimJson
src/front/caller.rs
    Known -> KnownCaller; Callers -> Authenticator
src/front/compress.rs
    Asked -> EncodingRequest; Document -> DocumentMark
src/front/failures.rs
    Shown -> RequestSender
src/front/fault.rs
    mod -> api_error; Fault -> ApiError; Policy -> RateLimitPolicy
src/front/faults.rs
    mod -> error_codes; Row -> CodeRow
src/front/frame.rs
    mod -> middleware; Told -> RequestTeller; Teller -> ErrorWriter; Door -> HostCheck; Check -> DoorCheck; Wording -> ErrorWording
src/front/intake.rs
    Intake -> MemoryBudget
src/front/quota.rs
    Taken -> QuotaUse; Full -> QuotaFull; Share -> QuotaShare
src/front/serve/connection.rs
    Serves -> ConnectionService; Watched -> MeteredSocket; Stall -> StallTimeout
src/front/serve/outgoing.rs
    Outgoing -> OutgoingBody; Held -> HeldBytes
src/front/serve/incoming.rs
    Incoming -> IncomingBody
src/front/serve/pulse.rs
    mod -> conn_state; Moment -> SharedInstant; Pulse -> ConnState; Overdue -> CloseReason; Answering -> AnswerGuard
src/front/shared.rs
    Shared -> FrontServices
src/front/via.rs
    mod -> entry_point; via -> entry_point; ByPage -> FromPage

# http
src/http/about.rs
    About -> RecordExtras; Told -> ExtraMembers; Named -> BuilderName; Usage -> ToolUsage
src/http/admin.rs
    Narrowed -> PolicyPreview
src/http/audit.rs
    Named -> AuditedBody
src/http/auth.rs
    Managed -> ManagedEndpoint; Anyone -> AdminOrBuilder
src/http/credits.rs
    Reader -> CreditReader; Reading -> CreditQuery
src/http/documents/described.rs
    mod -> schema_parts; Parts -> SchemaParts
src/http/documents/kept.rs
    mod -> document_cache; Kept -> CachedPage
src/http/documents/openapi.rs
    Wanted -> ToolFilter; Chosen -> ToolSelection
src/http/drafts.rs
    Asked -> RunQuery
src/http/endpoints.rs
    Came -> EntryQuery; For -> ForBuilderQuery; Wanted -> ListFilter
src/http/follow.rs
    Following -> FollowStream; Recent -> RecentIds; Entry -> StreamEntry; Source -> FollowSource
src/http/heeded.rs
    mod -> replication_barrier
src/http/invoke.rs
    Invoke -> InvokeBody
src/http/invoked.rs
    mod -> invoke_response; Invoked -> InvokeResponse; Front -> ResponseStyle
src/http/ledger.rs
    Answer -> LedgerResponse
src/http/navigated.rs
    mod -> html_402
src/http/listing.rs
    Room -> PageBudget
src/http/page.rs
    Limit -> PageLimit
src/http/refunds.rs
    Asked -> RefundQuery
src/http/route.rs
    Performs -> HandlerFn; Asker -> CallerExtractor; Nothing -> NoQuery
src/http/row.rs
    mod -> operation; Row -> Operation; Whose -> Access; Answers -> ResponseKind
src/http/services.rs
    Calling -> CallServices; Offering -> DiscoveryServices; Proving -> ReceiptServices; Accounts -> AccountServices; Publishing -> CatalogServices; Watching -> FeedServices; Earning -> MoneyServices; Auditing -> AuditServices; Sealing -> SecretServices; Operating -> HealthServices
src/http/turn.rs
    mod -> cpu_budget; ProcessorTurn -> CpuBudget

# mcp
src/mcp/accept.rs
    Sent -> RawMessage; Accepted -> AcceptedForms
src/mcp/answer.rs
    Written -> AnswerBody
src/mcp/begun.rs
    mod -> started_call; Begun -> StartedCall
src/mcp/beside.rs
    mod -> raw_result; Beside -> RawResultSlot; Answered -> AnsweredMessage; Events -> EventSplitter
src/mcp/call.rs
    Ending -> CallSummary; Admitted -> AdmittedAs
src/mcp/cancel.rs
    Cancellable -> CancelableCalls; Begun -> CancelEntry; Held -> CancelGuard; Session -> ClientSession
src/mcp/direct.rs
    mod -> fast_path; Plain -> PlainCall; Message -> CallMessage; Named -> NamedTool; Calling -> CallTarget
src/mcp/front.rs
    Front -> McpFront
src/mcp/heed.rs
    mod -> preparse; Asks -> MessageKind; Heeded -> MessageHead; HeededParams -> HeadParams
src/mcp/list_cache.rs
    Pages -> CachedPages
src/mcp/listed.rs
    mod -> tool_entry; Listed -> ToolEntry; Maker -> ToolEntryBuilder
src/mcp/listen.rs
    Wanted -> ListenFilter; Places -> ListenPermits; Listening -> ListenStream
src/mcp/narrowed.rs
    mod -> tool_filter; Narrowed -> ToolFilter
src/mcp/own.rs
    mod -> builtin_tools; Search -> SearchParams; Quote -> QuoteParams; Receipt -> ReceiptParams
src/mcp/pieces.rs
    mod -> chunked_body; Pieces -> ChunkedBody
src/mcp/recalls.rs
    mod -> remote_cancel; Recallable -> Cancelable; Recalls -> RemoteCancels
src/mcp/settings.rs
    Mcp -> McpOptions
src/mcp/tasks.rs
    TaskPlace -> TaskPermit; Started -> TaskStart; Running -> RunningTask
src/mcp/tasks/record.rs
    Record -> TaskRecord; State -> TaskState; Answer -> TaskAnswer; Looked -> TaskView; End -> TaskEnd
src/mcp/tasks/unpaid.rs
    Whose -> TaskOwner; Unpaid -> UnpaidEnd; Kept -> UnpaidState; Pile -> UnpaidPile
src/mcp/tools.rs
    Page -> ToolPage; Filling -> PageBuilder
src/mcp/server.rs
    Server -> McpServer
src/mcp/transport.rs
    Inner -> RmcpService

# money
src/money/accept.rs
    Accepted -> AcceptedToken
src/money/begun.rs
    mod -> intent; Begun -> StartedSettlement
src/money/closing.rs
    mod -> receipt_finisher; Closing -> ReceiptContext
src/money/credit.rs
    Held -> CreditHolds
src/money/credit/balance.rs
    Holder -> StoredCredit; Revoked -> Revocation
src/money/credit/budget.rs
    Spending -> PlannedSpend; Spent -> DaySpend
src/money/credit/give_back.rs
    mod -> refund_credit; GivenBack -> CreditRefund
src/money/credit/judge.rs
    mod -> decision
src/money/credit/line.rs
    mod -> row; Line -> CreditRow
src/money/credit/mint.rs
    Once -> IdempotencyKey; Done -> MintRow; Minted -> MintedCredit
src/money/credit/movement.rs
    Moved -> MovementView; MovementPlace -> MovementPosition; Movements -> MovementPage
src/money/credit/spend.rs
    Hold -> CreditHold
src/money/facilitator.rs
    Verdict -> VerifyResult; Unprepared -> PrepareError
src/money/facilitator/by_network.rs
    Nobody -> NoFacilitator
src/money/facilitator/chain/events.rs
    Log -> EventLog; Receipt -> TxReceipt
src/money/facilitator/chain/judge.rs
    mod -> nonce_use; Spends -> NonceKind
src/money/facilitator/chain/node.rs
    At -> BlockTag
src/money/facilitator/chain/permit.rs
    Called -> TxCall; Used -> NonceUse
src/money/facilitator/chain/sending.rs
    Sending -> SendOutcome; Text -> MessageMatch
src/money/facilitator/kind.rs
    Site -> FacilitatorSite; Means -> FacilitatorParts
src/money/facilitator/kind/evm.rs
    Patience -> TxTimeouts; Pending -> PendingTx
src/money/facilitator/kind/evm/desk.rs
    mod -> tx_manager; Ask -> TxRequest; Came -> NodeReply; Priced -> PricedTx; Desk -> TxManager; Clerk -> TxManagerTask
src/money/facilitator/kind/evm/desk/look.rs
    mod -> block_view; Looked -> BlockView; Counts -> TxCounts; Head -> ChainHead
src/money/facilitator/kind/evm/desk/schedule.rs
    Schedule -> PollSchedule
src/money/facilitator/kind/evm/flights.rs
    mod -> pending_txs; Ended -> TxEnd; Waiter -> TxWaiter; Flight -> InFlightTx; Flights -> PendingTxs
src/money/facilitator/kind/evm/gas.rs
    Gas -> GasBalance; Burned -> GasBurned; Seen -> SeenBalance
src/money/facilitator/kind/evm/order.rs
    mod -> signed_order; Order -> SignedOrder; What -> OrderKind; Codes -> ReasonCodes
src/money/facilitator/kind/evm/proxy.rs
    Proxy -> ProxyCheck
src/money/facilitator/kind/evm/transaction.rs
    Quoted -> QuotedFees; Call -> TxCall; Signed -> SignedTx
src/money/facilitator/kind/reach.rs
    Reached -> ReachReport
src/money/facilitator/kind/remote.rs
    Patience -> FacilitatorTimeouts
src/money/facilitator/kind/remote/line.rs
    mod -> client; Line -> FacilitatorClient
src/money/facilitator/kind/remote/said.rs
    mod -> response; Said -> SettleResponse
src/money/facilitator/kind/remote/supported.rs
    Said -> NetworkSupport; Supported -> SupportedCache
src/money/facilitator/kind/remote/tries.rs
    mod -> retry; Tries -> RetryPolicy
src/money/facilitator/kind/remote/window.rs
    Window -> ConcurrencyWindow
src/money/facilitator/reason.rs
    Found -> MoneyEffect; Told -> RefusalText
src/money/facilitator/view.rs
    Placed -> TxPlacement
src/money/facilitator/post.rs
    Answer -> HttpAnswer; Poster -> JsonClient
src/money/finisher.rs
    Finished -> SignedReceipt; News -> CommitEffects
src/money/gate.rs
    mod -> payments; Gate -> Payments; Request -> PaymentRequest; Seen -> SeenPayment; Held -> RunHolds; Means -> PaymentMeans
src/money/gate/answer.rs
    Bought -> PaidAnswer; Ended -> HeldPaymentEnd; Laid -> StagedAnswer
src/money/gate/answer/row.rs
    Object -> AnswerObject; Apart -> DetachedAnswer
src/money/gate/ask.rs
    mod -> settlement_poller; Asking -> PollGuard
src/money/gate/bind.rs
    Bound -> BoundTo
src/money/gate/funds.rs
    Purse -> BalanceKey; Purses -> BalanceHolds; PurseHold -> BalanceHold
src/money/gate/recent.rs
    mod -> sliding_window; Recent -> SlidingWindow; Moment -> WindowMoment
src/money/gate/reconcile.rs
    Paid -> PaidTransfer
src/money/gate/record.rs
    State -> PaymentPhase; Kept -> AnswerLocation; Record -> PaymentRecord; Tail -> ExpiryInfo; Due -> RecordTimeout; Intent -> SettlementIntent
src/money/gate/retry.rs
    Retry -> PollBackoff; Lanes -> PollSlots
src/money/gate/settle.rs
    Conclusion -> PaymentConclusion
src/money/gate/slowed.rs
    mod -> run_limits; Slowed -> RunLimitReached; Bound -> RunLimit
src/money/gate/throttle.rs
    mod -> unpaid_runs; Running -> RunParties; Throttle -> UnpaidRunLimiter; Place -> RunPermit
src/money/gate/throttle/account.rs
    Funds -> KnownFunds; Account -> RunAccount; Now -> ThrottleTime
src/money/gate/throttle/shared.rs
    Payers -> PayerAccounts; Tools -> ToolAccounts
src/money/gate/throttle/untold.rs
    mod -> unreported; Untold -> UnreportedRuns
src/money/gate/watch.rs
    Cut -> RoundEnd
src/money/ledger/check/found.rs
    mod -> report; Found -> LedgerReport; Wrong -> LedgerMismatch
src/money/ledger/check/sales.rs
    Paid -> ReceiptAmounts; Posted -> PostedAmounts
src/money/ledger/opening.rs
    Opened -> LedgerStart; Opening -> OpeningEntries
src/money/ledger/read.rs
    Reading -> LedgerPage; Reader -> LedgerReader
src/money/ledger/returned.rs
    mod -> refund_split; Paid -> SaleAmounts; Returned -> RefundAmounts
src/money/ledger/sold.rs
    mod -> sale_posting; Sold -> SoldCall
src/money/offered.rs
    mod -> payment_offer; Offered -> OfferedPayment
src/money/payer/ask.rs
    mod -> payable_terms; Ask -> PayableTerms; Bounds -> PaymentBounds
src/money/payout.rs
    Waits -> PendingPayout
src/money/payout/collect.rs
    Head -> NewestPacket; Waiting -> PendingReceipts; Step -> CollectStep
src/money/payout/packet.rs
    Begun -> PacketDraft; Decision -> PayoutAction; Verdict -> PayoutDecision; Paid -> CheckedDecision
src/money/payout/states.rs
    Counts -> PacketCounts
src/money/payout/status.rs
    Status -> PayoutStatus
src/money/quote.rs
    Quoted -> QuotedTerms
src/money/quote/id.rs
    Said -> QuoteClaims
src/money/quote/keys.rs
    Remembered -> QuoteKeyring; Past -> RetiredKey
src/money/quote/told.rs
    mod -> document; Line -> CostLine
src/money/receipt/draft.rs
    Draft -> ReceiptDraft; Payment -> ReceiptPayment; Transfer -> SettledTransfer; Kind -> PaymentKind
src/money/receipt/free.rs
    Tally -> ReceiptTally; SortedTo -> SortProgress; Packed -> PackedReceipts
src/money/receipt/record.rs
    Record -> UnsignedReceipt; Signed -> Receipt
src/money/receipt/short.rs
    mod -> stored; Stored -> StoredReceipt; Whole -> WholeRow; Short -> ShortRow
src/money/receipt/key.rs
    Signer -> ReceiptSigner
src/money/receipt/verify.rs
    Verified -> VerifiedReceipt; Part -> SignaturePart
src/money/refund.rs
    Refunded -> RefundedTotal
src/money/refund/give.rs
    mod -> issue; Refunding -> RefundRequest; Done -> RefundRow; Given -> IssuedRefund; Bought -> PaidTotals; News -> RefundEffects
src/money/route.rs
    Start -> RouteStart; Due -> AmountDue; Settled -> RouteArrival; Way -> RouteSteps; Step -> RouteStep; Cost -> RouteCost
src/money/route/remote.rs
    Asked -> QuoteQuery
src/money/route/table.rs
    Place -> Venue; Exit -> VenueExit; By -> Mover; Asset -> RouteAsset
src/money/route/way.rs
    mod -> table_routes
src/money/sale.rs
    Unpaid -> UnpaidSale; Totals -> SaleTotals
src/money/sale/format.rs
    Before -> SaleBeforeRefunds
src/money/sale/listed.rs
    mod -> seller_cache; Listed -> SellerCache
src/money/sale/report.rs
    Report -> RevenueReport; Line -> RevenueLine; Daily -> DailyCalls; Sums -> OwnerSums; OfEndpoint -> EndpointSums; Detail -> ReportDetail
src/money/sale/tests.rs
    HeldUp -> DelayedStore
src/money/sale/tests/pages.rs
    Asked -> ScanSizes
src/money/terms.rs
    Terms -> CallTerms; Way -> EntryMethod
src/money/tests.rs
    Mood -> FacilitatorMood; Moody -> MoodyFacilitator; Interrupted -> InterruptedStore
src/money/tests/faults.rs
    Running -> AdmittedRun
src/money/transactions.rs
    SentFor -> TransactionPurpose; PaidBy -> PaidItems
src/money/x402/extensions.rs
    Cut -> ChallengeDetail
src/money/x402/offer.rs
    Shown -> ShownPayment; Payment -> OfferedX402
src/money/x402/permit2.rs
    Taking -> ProxyCall
src/money/x402/sample.rs
    Sampled -> SampleInput
src/money/x402/signed.rs
    Signed -> SignedPayload
src/money/x402/wire.rs
    Question -> PaymentQuestion; Challenge -> X402Challenge

# objects
src/objects/bucket.rs
    Place -> BucketLocation; Kept -> ObjectLayout
src/objects/lib.rs
    Ending -> DeletionKey; Stays -> DeletionPause; Promised -> PendingObject; Ended -> EndedObjects

# operate
src/operate/database.rs
    Examined -> DatabaseReport; LookError -> InspectError; Made -> FindingBuilder
src/operate/jail.rs
    Examined -> JailCheck
src/operate/machine.rs
    Has -> MachineFacts
src/operate/volume.rs
    Fit -> Suitability

# replica
src/replica/exchange.rs
    Tallies -> SharedCounts
src/replica/follow.rs
    Followed -> FollowedState
src/replica/formats.rs
    Known -> KnownFormats
src/replica/jobs.rs
    Job -> JobState; Turn -> JobRun
src/replica/keys.rs
    Agreed -> SharedKey
src/replica/lease.rs
    Living -> LiveReplicas
src/replica/lib.rs
    Contact -> StoreContact; Held -> HeldLease
src/replica/seen.rs
    mod -> peers; Seen -> SeenReplica
src/replica/tests.rs
    Holds -> HeldChanges
src/replica/told.rs
    mod -> barrier

# store
src/store/around.rs
    mod -> test_wrappers; Around -> StoreWrapper; Meanwhile -> InterleavingStore; Reading -> CountingStore; Yielding -> YieldingStore
src/store/changes.rs
    Change -> CommittedChange
src/store/declared.rs
    Declared -> DeclaredTable
src/store/fill.rs
    mod -> import; Filler -> Importer
src/store/journal/archived.rs
    Archived -> ArchiveFrames
src/store/journal/blank.rs
    mod -> zeroed_file; Blank -> ZeroedFile
src/store/journal/checkpoint.rs
    Dump -> CheckpointWriter; Checkpoint -> CheckpointReader; Held -> CheckpointItem
src/store/journal/cut.rs
    mod -> byte_cursor; Cut -> ByteCursor
src/store/journal/damage.rs
    Damage -> JournalDamage
src/store/journal/ends.rs
    mod -> archive_hashes; Ends -> ArchiveHashes
src/store/journal/frame.rs
    Head -> FrameHead
src/store/journal/link.rs
    mod -> hash_chain; Link -> ChainLink
src/store/journal/part.rs
    Told -> ChangeEntry; Part -> FramePart; Row -> RowPart
src/store/journal/reader.rs
    Found -> FrameAt; Reader -> FrameReader
src/store/journal/room.rs
    mod -> disk_space; Room -> DiskSpace; AskFree -> FreeSpaceFn
src/store/journal/segment.rs
    Kind -> SegmentKind; Opening -> SegmentHeader; Named -> SegmentFile
src/store/journal/total.rs
    Total -> SpaceTotal; Weight -> RowWeight; Totals -> SpaceTotals
src/store/journal/unfinished.rs
    mod -> temp_file; Unfinished -> TempFile
src/store/journal/walk.rs
    End -> JournalEnd; Walk -> FrameWalk
src/store/journal/writer.rs
    NotWritten -> WriteError; Writer -> JournalWriter; Counts -> WriterCounts
src/store/key.rs
    Part -> KeyPart; StartOf -> KeyPrefix; Ended -> TerminatedText; Counted -> CountedText; Starting -> TextPrefix
src/store/lib.rs
    Size -> SpaceSize; Sizes -> SpaceSizes; Pairs -> KeyValues
src/store/limit.rs
    Limit -> SumLimit
src/store/movable.rs
    mod -> live_migration; MovableStore -> MigratableStore; Leaving -> MigrationWalk; Paused -> CommitPause
src/store/page.rs
    Page -> CopyPage; Sums -> RowSums; Listed -> PageRow
src/store/place.rs
    mod -> position; Place -> KeyPosition
src/store/plan.rs
    mod -> table_plan; Plan -> TablePlan; Kept -> RowRetention; Index -> IndexFn; Entry -> IndexEntry
src/store/postgres/about.rs
    mod -> server_info; About -> ServerInfo
src/store/postgres/call.rs
    mod -> commit_call; Call -> CommitCall
src/store/postgres/judge.rs
    mod -> error_class; Verdict -> ErrorClass
src/store/postgres/lane.rs
    mod -> commit_worker; Writer -> WriteConnection; Stopped -> BatchFailure
src/store/postgres/pending.rs
    Pending -> PendingCommits; Job -> QueuedCommit; Waiting -> WaitingCommits; Taken -> CommitGroup; Place -> KeyId; Outcome -> CommitOutcome
src/store/postgres/reader.rs
    Reader -> ReadConnection
src/store/postgres/readers.rs
    Readers -> ReadPool; Asking -> QueryGuard
src/store/postgres/shared.rs
    Shared -> PostgresShared
src/store/postgres/sizes.rs
    Part -> SizePart; Known -> KnownSizes
src/store/postgres/tls.rs
    Sealed -> TlsConnection; Anyone -> AcceptAnyCert; Trust -> CertTrust
src/store/room.rs
    mod -> queue_space; Room -> QueueSpace
src/store/round.rs
    mod -> sweep_cursor; Standing -> SweepState; Round -> SweepTurn
src/store/sled/disk.rs
    Failure -> CommitFailure; Planned -> PlannedGroup
src/store/sled/feed.rs
    Feed -> MigrationFeed
src/store/sled/footing.rs
    mod -> common; Base -> JournalBase; Left -> RemainingCheck; Unfit -> TreeUnusable; Stopped -> ReplayError
src/store/sled/group.rs
    Group -> CommitGroup
src/store/sled/job.rs
    Job -> CommitJob; Answer -> CommitReply
src/store/sled/kept.rs
    mod -> background; Kept -> BackgroundState
src/store/sled/look.rs
    mod -> checkpoint_check; Looked -> CheckpointContents
src/store/sled/make.rs
    mod -> tree_builder; Filled -> TreeBuilder
src/store/sled/moment.rs
    mod -> read_guard; Moment -> TreeHandle
src/store/sled/open.rs
    Opened -> OpenStore; Brought -> ReplayedTree
src/store/sled/position.rs
    Position -> TreePosition; Stored -> StoredPosition
src/store/sled/renew.rs
    mod -> rebuild; Half -> HalfBuiltTree; Making -> TreeBuild; Gentle -> ThrottledSink
src/store/sled/renewals.rs
    mod -> rebuilds; Ask -> RebuildRequester; Asked -> RebuildRequest; Renewals -> Rebuilds
src/store/sled/repair.rs
    Checked -> StoreReport; From -> RepairSource
src/store/sled/standing.rs
    mod -> health; Standing -> StoreHealth
src/store/sled/told.rs
    mod -> changelog
src/store/sled/values.rs
    Head -> ValueHead; Held -> ValueBody; Change -> KeyChange
src/store/space.rs
    Stake -> LossImpact
src/store/table.rs
    Unread -> RawRow
src/store/trim.rs
    Trimmed -> TrimReport
src/store/update.rs
    Decided -> UpdatePlan
src/store/value.rs
    Named -> NamedPair
src/store/written.rs
    mod -> row_history; Written -> WrittenRow; Became -> RowFate

# telemetry
src/telemetry/counted.rs
    mod -> counters; Counts -> LabeledCounts; OfOutcome -> OutcomeCount; Times -> LabeledTimes; Jobs -> JobCounts; Count -> Counter
src/telemetry/course.rs
    mod -> call_trace; Followed -> FollowedCall; Course -> CallProgress
src/telemetry/histogram.rs
    Shape -> HistogramSnapshot
src/telemetry/log.rs
    Kept -> FieldBuffer
src/telemetry/otlp/send.rs
    Sent -> SendOutcome
src/telemetry/sample.rs
    Measured -> SampleValue; Value -> MetricValue
src/telemetry/span.rs
    Traced -> TracedCall; Passed -> PassedStage
src/telemetry/table.rs
    mod -> metric_table
src/telemetry/tracer.rs
    PerSecond -> PerSecondLimit

# tool
src/tool/approved.rs
    Field -> ReviewedField
src/tool/handler.rs
    Reach -> BuiltinAccess; Row -> HandlerRow
src/tool/capability.rs
    Touches -> CapabilityScope
src/tool/review.rs
    Decided -> ReviewRecord; Decision -> ReviewAction
src/tool/runs.rs
    Runs -> EndpointCode
src/tool/texts.rs
    mod -> public_texts
src/tool/unreadable.rs
    mod -> portability; Unreadable -> PortabilityIssue
src/tool/version.rs
    Via -> ChangedVia; Maker -> VersionMaker
src/tool/schema/keyword.rs
    Holds -> KeywordValue
src/tool/schema/bound.rs
    Part -> CountedPart; Step -> PartStep; Open -> OpenPart; Count -> PartCount

# web
src/web/asked.rs
    mod -> query; Asked -> PageQuery
src/web/doors.rs
    mod -> host_checks
src/web/forms/again.rs
    mod -> resubmit; Sent -> SentForm
src/web/forms/known.rs
    mod -> form_table; Form -> FormRow
src/web/forms/posted.rs
    Posted -> PostedForm
src/web/kept.rs
    mod -> render_cache; Kept -> RenderCache; Made -> RenderedDoc
src/web/page.rs
    Back -> BackLink
src/web/pages/admin/changes.rs
    Uploaded -> UploadedVersion; Part -> SourcePart
src/web/pages/admin/overview.rs
    Need -> AdminTask
src/web/pages/admin/payouts.rs
    Shown -> PayoutsView
src/web/pages/admin/read.rs
    mod -> read_tool; Read -> ReadTool
src/web/pages/admin/review.rs
    Seen -> ReviewView
src/web/pages/admin/shared.rs
    Decided -> DecisionTarget
src/web/pages/calls.rs
    Whose -> ToolViewer; Shown -> CallsView
src/web/pages/edit/draft.rs
    Draft -> ToolDraft; Differing -> DifferingField; Body -> UploadBody
src/web/pages/edit/fields.rs
    Known -> FormContext; Marks -> FieldIds
src/web/pages/edit/now.rs
    mod -> current; Now -> CurrentTool; Given -> InitialForm
src/web/pages/edit/sheet.rs
    mod -> edit_page; Sheet -> EditPage
src/web/pages/edit/told.rs
    mod -> feedback; Told -> Feedback
src/web/pages/home/needs.rs
    mod -> todos; Need -> BuilderTask
src/web/pages/home/shown.rs
    mod -> view; Shown -> HomeView
src/web/pages/log.rs
    Wanted -> LogFilter
src/web/pages/payouts.rs
    Shown -> PayoutsView
src/web/pages/register.rs
    Terms -> RegistrationTerms
src/web/pages/revenue/report.rs
    Shown -> RevenueView
src/web/pages/try_it.rs
    Step -> FormStep
src/web/pages/try_it/answer.rs
    Answer -> CallAnswer
src/web/pages/try_it/asked.rs
    mod -> request; Asked -> CallRequest
src/web/pages/try_it/call.rs
    Pays -> PaymentSource; OnCredit -> CreditCall; Call -> ToolCall
src/web/pages/try_it/input.rs
    Given -> GivenInput; Typed -> TypedInput; State -> InputState
src/web/pages/try_it/memory.rs
    mod -> form_memory; Memory -> FormMemory; Form -> UsedForm
src/web/pages/try_it/offer.rs
    Offer -> PaymentPrompt
src/web/pages/try_it/pay.rs
    Payable -> PayableForm
src/web/pages/try_it/play.rs
    Play -> PlayOption
src/web/pages/try_it/start.rs
    Start -> StartPage
src/web/pages/try_it/step.rs
    Edited -> EditStep
src/web/pages/try_it/terms.rs
    Terms -> CallTerms
src/web/pages/try_it/tool.rs
    Tool -> TriedTool; Costs -> CallCost
src/web/pages/usage.rs
    Whose -> ToolViewer
src/web/pages/versions.rs
    Read -> ReadVersion
src/web/parts/diff.rs
    Names -> DiffNames
src/web/parts/diff/rows.rs
    Compared -> DiffResult; Row -> DiffRow; Table -> DiffTable
src/web/parts/follow.rs
    Followed -> FollowedList
src/web/parts/happened.rs
    mod -> event_lines
src/web/parts/schema_form/draft.rs
    Draft -> FormDraft; Typed -> TypedInput; Rest -> RestText
src/web/parts/schema_form/kind.rs
    Kind -> FieldKind; Text -> TextKind; Item -> ListItem
src/web/parts/schema_form/layout.rs
    Place -> ObjectPlace; Item -> FormItem
src/web/parts/schema_form/view.rs
    Filled -> FilledForm
src/web/parts/schema.rs
    Bounds -> MemberBounds; Bound -> BoundText
src/web/parts/text.rs
    Seen -> VisibleText
src/web/parts/ways.rs
    mod -> call_snippets; Way -> SnippetParts
src/web/play.rs
    mod -> play_wallet; Wallet -> PlayWallet; Purpose -> PaymentPurpose
src/web/root.rs
    mod -> base_path; Root -> BasePath
src/web/services.rs
    Operation -> ApiOperation
src/web/shell.rs
    mod -> page_frame; Around -> PageContext
src/web/visitor.rs
    Refused -> ApiRefusal

# tests
tests/it/apart.rs
    mod -> isolation
tests/it/attacks.rs
    Met -> AttackResult
tests/it/backups/changing.rs
    Done -> ChangeRecord; Did -> ChangeKind; Has -> HostState
tests/it/cli/call/seller.rs
    Losing -> LossyProxy
tests/it/cli/follow.rs
    Going -> RunningCommand
tests/it/cluster/changes.rs
    Took -> ChangeTimes
tests/it/cluster/rolling.rs
    Heard -> FollowedEvents
tests/it/envelope.rs
    Asked -> RawRequest
tests/it/harness/documented.rs
    Asked -> AskedOperation
tests/it/harness/facilitator.rs
    Settles -> SettleMode; Said -> FacilitatorAnswer; Told -> FacilitatorState
tests/it/harness/gateway.rs
    Odd -> GatewayFault
tests/it/harness/lossy.rs
    Loses -> LossMode; Lossy -> LossyFacilitator
tests/it/harness/stream.rs
    Told -> StreamEvent
tests/it/hostile.rs
    Held -> HeldResources
tests/it/kept.rs
    mod -> stored_state
tests/it/reached.rs
    mod -> upgrade_path; Bought -> PaidCall
tests/it/telemetry/collector.rs
    Kept -> Collected
tests/it/ways.rs
    mod -> call_paths; Way -> CallPath; Got -> CallerResult; Told -> NormalizedAnswer
tests/it/web/told.rs
    mod -> shown_terms
tests/store_contract/cut.rs
    Cuts -> CutMode; Cut -> CuttingProxy

# xtask
xtask/src/args.rs
    Asked -> EngineArg
xtask/src/dist/check.rs
    Gone -> TempFolder
xtask/src/dist/inside.rs
    Inside -> Embedded
xtask/src/dist/licences.rs
    Made -> ListedCrate
xtask/src/faces.rs
    mod -> browser_stories; Place -> StoryContext
xtask/src/place.rs
    mod -> paths
xtask/src/long.rs
    mod -> long_tests; Long -> LongTest
xtask/bench/src/fairness.rs
    Met -> VictimResults
xtask/bench/src/ledger.rs
    Place -> ReceiptStore
xtask/bench/src/soak/attack.rs
    Attack -> AttackCounts
xtask/bench/src/soak/judge.rs
    mod -> verdict; Scale -> RunScale
xtask/bench/src/soak/seen.rs
    mod -> samples; Look -> Sample; Row -> SampleRow
xtask/bench/src/victims.rs
    Met -> AttackResults; Sum -> VictimTotals; Look -> HealthProbe
xtask/mutants/src/alone.rs
    Tried -> TriedMutants
xtask/mutants/src/rooms.rs
    mod -> areas; Room -> MutationArea

# --- functions, methods, fields ---
sandbox/fair/src/lib.rs
    State.under_way -> in_flight; Line.under_way -> in_flight
sandbox/pool/src/alarm.rs
    Alarm.tell_of_first -> notify_first
sandbox/pool/src/exchange/tests.rs
    Peer.say -> send; Peer.hear -> receive
sandbox/pool/src/exchange/tests/under_way.rs
    mod -> in_flight; Slow.go_on -> resume; hears_all -> receives_all
sandbox/pool/src/groups.rs
    Group.kept -> state; Bounds.tell -> report
sandbox/pool/src/groups/tests.rs
    told -> report; Bound.go -> start
sandbox/pool/src/process.rs
    Process.until_gone -> wait_for_exit
sandbox/pool/src/scheduler/permit.rs
    Permit.make_way -> yield_slot
sandbox/pool/src/scheduler/queue.rs
    Queue.may_go_ahead -> may_run_ahead; Queue.make_way -> yield_slot
sandbox/pool/src/scheduler/waiter.rs
    Waiter.may_go_ahead -> may_run_ahead
sandbox/pool/src/status.rs
    told -> merge_refusals
sandbox/pool/src/wire.rs
    KEPT_BYTES -> RETAINED_BYTES; let_go_if_large -> shrink_if_large; Buffers.let_go_of_sent -> drop_sent
sandbox/pool/src/zygote/tests.rs
    Nursery.says -> replies; say -> send_order
sandbox/pool/tests/pool/groups.rs
    told -> report
sandbox/pool/tests/pool/pipeline.rs
    Stopped.until_gone -> wait_for_exit
sandbox/worker/src/call_state.rs
    CallState.say -> push_progress
sandbox/worker/src/decoders.rs
    Decoders.under_way -> open
sandbox/worker/src/host.rs
    SAID -> EXIT_MESSAGE_SENT
sandbox/worker/src/nesting.rs
    GO_ON -> CONTINUATIONS
sandbox/worker/src/op_queue.rs
    Waiting.heard -> answered
sandbox/worker/src/worker.rs
    Worker.tell -> send
sandbox/worker/src/zygote.rs
    Fork.clone_beside -> clone_sibling
sandbox/worker/tests/it/harness.rs
    Worker.said -> messages
sandbox/worker/tests/it/schemas.rs
    SAYS -> MESSAGE
src/app/moving.rs
    TOLD_EVERY -> REPORT_EVERY; say -> log_progress; gone -> departure_of
src/backup/control.rs
    tell -> write_event; told -> read_event
src/base/aside.rs
    aside -> run_blocking; begun_aside -> spawn_blocking_task
src/base/behalf.rs
    said_for -> forwarded_value; heard -> parse_forwarded
src/base/flaws.rs
    TOLD -> MAX_LISTED; Flaws.told -> listed; Flaws.tell -> add
src/base/ready.rs
    One.kept -> value
src/base/uses.rs
    Uses.untold -> unreported; Use.untold -> unreported
src/call/content.rs
    says_json -> is_json_type
src/call/digits.rs
    told_apart -> fingerprint_bytes; is_told_by_a_double -> fits_a_double
src/call/input.rs
    Parsed.kept -> retain_for
src/call/lib.rs
    Calls.under_way -> in_flight
src/call/metrics.rs
    Metrics.kept -> recent; Metrics.kept_ms -> retention_ms
src/call/metrics/figures.rs
    Metrics.kept -> recent_lock
src/call/metrics/read.rs
    told -> format_span
src/call/new_call.rs
    NewCall.way -> entry_method; NewCall.till -> charge
src/call/register.rs
    told -> builder_json
src/call/request.rs
    Call.way -> entry_method
src/call/run/builtin/readiness/client.rs
    ReadinessClient.own_way -> route_to_self
src/call/run/builtin/readiness/tests/details.rs
    says -> has_note
src/call/run/isolate.rs
    told -> redacted_mismatch
src/call/run/task.rs
    Task.till -> charge
src/call/tests.rs
    Told.go -> proceed
src/capability/agrees.rs
    check_kept -> check_objects
src/capability/files/tests/shares.rs
    Slow.go -> permits; Slowed.let_go -> release
src/capability/guard.rs
    Inner.kept -> cache
src/capability/guard/dns.rs
    LATE -> STALE_FOR; KEPT_BYTES -> CACHE_BYTES; Inner.kept -> cached
src/capability/guard/limits.rs
    KEPT_HOSTS -> CACHED_HOSTS; KEPT_HOSTS_FOR -> CACHED_HOSTS_TTL; KEPT_FOR -> CACHE_TTL; KEPT_NAMES_BYTES -> CACHED_NAMES_BYTES
src/capability/guard/system.rs
    KEPT_FOR -> CACHE_TTL; System.kept -> cache
src/capability/lib.rs
    Ops.till -> charge; Ops.with_till -> with_charge
src/capability/log/waiting.rs
    State.untold -> unreported; Waiting.take_untold -> take_unreported; Waiting.has_untold -> has_unreported
src/capability/log/writer.rs
    TELL_EVERY -> REPORT_EVERY; Writer.tell_from -> report_from; Writer.tells -> reports; Writer.tell -> report_dropped; Writer.told -> drop_notice
src/capability/progress.rs
    Listener.hear() -> deliver; Listener.hear -> on_update; Pace.heard -> sent
src/capability/redact/tests/fuzz.rs
    tells -> reveals
src/capability/secret.rs
    BESIDES -> OVERHEAD_BYTES; Secrets.let_go -> evict
src/capability/secret/rotate.rs
    Page.anew -> rewritten
src/capability/secret/tests/hosts.rs
    beside -> second_host
src/capability/testing.rs
    Stuck.go -> permits
src/catalog/commit.rs
    Change.laid -> staged
src/catalog/deletion.rs
    GONE_WITHIN -> DELETED_WITHIN
src/catalog/fit.rs
    Catalog.promises_kept -> check_promises
src/catalog/follow.rs
    Catalog.mend_card -> repair_card; Catalog.let_loose -> revoke
src/catalog/find.rs
    Catalog.let_rest -> evict
src/catalog/lib.rs
    Catalog.told -> shown_cache; CatalogRoom.told_bytes -> shown_cache_bytes
src/catalog/live.rs
    BESIDES -> OVERHEAD_BYTES
src/catalog/made.rs
    Catalog.tell -> build_shown
src/catalog/publish.rs
    Readied.laid -> staged
src/catalog/safety/scan.rs
    is_meant -> is_intended
src/catalog/search/words.rs
    Query.sought -> stems
src/catalog/source.rs
    Sources.kept -> store; Sources.gone -> remove
src/catalog/suspend.rs
    Catalog.heed_builder -> apply_builder
src/catalog/tests/deletion.rs
    KEPT -> RETAINED; kept -> retained
src/catalog/tests/follow.rs
    hears -> receives
src/catalog/version.rs
    LET_GO -> RELEASED; LET_GO_MS -> RELEASED_MS; Catalog.kept -> store_version; Catalog.let_go -> unreference
src/catalog/words.rs
    KEPT_EVERY -> STORED_EVERY
src/cli/base/address.rs
    told -> host_name
src/cli/base/changed.rs
    BESIDE -> CONTEXT
src/cli/base/error.rs
    Error.said -> reported; Error.tell -> report
src/cli/base/follow.rs
    Following.say -> notify
src/cli/base/out.rs
    Out.tell -> print; Out.tell_once -> print_secret
src/cli/base/session.rs
    Session.is_kept -> is_stored; meant -> chosen_host
src/cli/call.rs
    Call.is_under_way -> is_in_flight
src/cli/call/send.rs
    Sending.tell -> print
src/cli/check.rs
    tell -> print
src/cli/dev/known.rs
    Known.gone -> forget
src/cli/dev/place.rs
    Held.tell -> announce
src/cli/dev/publishes.rs
    Publishes.tell -> reporter; Publishes.untold -> unreported; types_told -> types_json; Publishes.tell_head -> print_head; Publishes.tell_untold -> print_unreported; Publishes.tell_looked -> print_check
src/cli/dev/stream.rs
    Stream.told -> seen
src/cli/dev/tell.rs
    Teller.beside -> aside
src/cli/init.rs
    tell -> print
src/cli/keeping.rs
    Keeping.kept -> stored
src/cli/key.rs
    tell_address -> print_address
src/cli/logs.rs
    Telling.told -> format
src/cli/misread.rs
    told -> explain
src/cli/operator/doctor/public.rs
    TOLD_ONCE -> MAX_LISTED
src/cli/operator/mend.rs
    TOLD -> MAX_LISTED; told -> repair_summary
src/cli/operator/rotate.rs
    told -> summary
src/cli/operator/verify.rs
    beside -> sibling
src/cli/pay/book.rs
    under_way -> open_payments
src/cli/pay/challenge.rs
    MOST_WAYS -> MAX_TERMS
src/cli/pay/choose.rs
    way -> term
src/cli/pay/perform.rs
    BESIDE -> EXTRA_BYTES; Unknown.said -> message
src/cli/pay/reply.rs
    Reply.beside -> extras
src/cli/plan.rs
    Plan.kept -> unchanged; told -> change_text; Plan.kept_rows -> unchanged_rows
src/cli/secrets.rs
    told -> print_list
src/cli/show.rs
    told -> details
src/cli/tool/cases.rs
    Case.said -> label
src/cli/tool/map.rs
    KEPT -> MAX_MAPS; told -> rewrite_path; Map.kept -> load
src/cli/tool/scaffold.rs
    Made.told -> label
src/cli/trial.rs
    Tried.told -> summary
src/config/environment.rs
    said_aloud -> secret_on_command_line
src/config/lib.rs
    Flags.kept -> retention; Settings.kept -> retention
src/config/sandbox.rs
    beside_this_binary -> next_to_this_binary
src/config/told.rs
    Setting.told -> effective
src/event/feed.rs
    Feed.tell -> send
src/event/pull.rs
    Pulled.told -> published
src/event/pull/tests.rs
    told -> received
src/front/fault/from.rs
    whose -> party
src/front/frame.rs
    Wording.told -> writer
src/front/serve/connection.rs
    Watched.tell -> note_write
src/front/serve/outgoing.rs
    BESIDE_BYTES -> OVERHEAD_BYTES
src/front/serve/pulse.rs
    Pulse.heard -> note_read
src/http/about.rs
    About.beside -> extras
src/http/account.rs
    told -> balance_json
src/http/calls.rs
    told -> series_json
src/http/documents.rs
    KEPT -> CACHED
src/http/documents/document.rs
    Document.told -> respond
src/http/documents/kept.rs
    KEPT -> CACHED_FOR
src/http/endpoints.rs
    whose -> resolve_owner
src/http/follow.rs
    Following.told -> sent
src/http/lib.rs
    told -> documented_routes
src/http/payouts.rs
    told -> settings_response
src/http/quotes.rs
    OF_WAYS -> ROUTE_FIELDS; told -> quote_response
src/http/route.rs
    Asker.WHOSE -> ACCESS; Route.told -> responds; Route.heeds -> reads_headers
src/http/row.rs
    Row.whose -> access
src/http/stream.rs
    told -> progress_event
src/mcp/begun.rs
    Begun.told -> respond
src/mcp/beside.rs
    anew -> with_result
src/mcp/call.rs
    GONE -> CALLER_GONE; told -> render_end
src/mcp/heed.rs
    MAX_HEEDED_BYTES -> MAX_PREPARSED_BYTES; heed -> preparse
src/mcp/listen.rs
    Listening.told -> announced
src/mcp/listeners.rs
    tell -> notify_all
src/mcp/progress.rs
    Notifier.tell -> notify
src/mcp/recalls.rs
    KEPT_MS -> RETENTION_MS; Recalls.tell -> request_cancel; Recalls.tell_of_unsure -> request_cancel_if_unsure; Recalls.heed -> follow
src/mcp/refusal.rs
    told -> error_data; told_as -> error_data_as
src/mcp/request.rs
    CallRequest.gone -> caller_gone
src/mcp/tasks.rs
    BESIDE -> OVERHEAD_BYTES; Tasks.kept -> retention; Running.said -> progress; TaskPlace.whose -> owner
src/mcp/tasks/record.rs
    Record.told -> task_view
src/mcp/tasks/unpaid.rs
    Unpaid.whose -> owner; UnpaidTasks.kept() -> lock; UnpaidTasks.kept -> state
src/mcp/tools.rs
    Page.told -> list_result
src/money/credit/budget.rs
    KEPT_DAYS -> RETAINED_DAYS; TOLD_TOOLS -> MAX_LISTED_TOOLS
src/money/facilitator/chain/search.rs
    Walk.says_nothing -> is_inconclusive
src/money/facilitator/chain/sending.rs
    said -> outcome_of
src/money/facilitator/kind/evm/flights.rs
    Flight.heard -> last_seen
src/money/facilitator/kind/evm/transaction.rs
    FEES_KEPT -> FEE_SAMPLES
src/money/facilitator/kind/ledger.rs
    Ledger.told_balance -> balance_floor
src/money/facilitator/kind/reach.rs
    Reached.said -> schemes
src/money/facilitator/kind/remote/said.rs
    settle_said -> parse_settle
src/money/facilitator/kind/remote/supported.rs
    KEPT -> FRESH_FOR; Supported.hear -> update
src/money/facilitator/kind/remote/supported/tests.rs
    says -> answers
src/money/facilitator/post.rs
    told -> answer_to
src/money/gate/admit.rs
    KEY_KEPT -> KEY_TTL
src/money/gate/record.rs
    ANSWER_KEPT -> ANSWER_TTL; RELEASED_KEPT -> RELEASED_TTL
src/money/gate/settle.rs
    Gate.count_late -> count_late_settlement
src/money/gate/throttle.rs
    UNTOLD_AT_ONCE -> UNREPORTED_AT_ONCE; Accounts.untold -> unreported; Throttle.settled_late -> settled_afterwards
src/money/gate/throttle/account.rs
    HISTORY_KEPT -> HISTORY_TTL; Account.under_way -> in_flight; ToolAccount.under_way -> in_flight; Customer.under_way -> in_flight
src/money/gate/throttle/untold.rs
    MOST_UNTOLD -> MAX_UNREPORTED; Untold.is_told -> mark_reported
src/money/ledger/check/found.rs
    TOLD -> MAX_LISTED; Found.tell -> add
src/money/ledger/read.rs
    Reader.tell -> push_account
src/money/payout.rs
    whose -> builder_index
src/money/quote/id.rs
    SAID_BYTES -> CLAIMS_BYTES
src/money/receipt/free.rs
    FreeReceipts.is_of_late -> is_recent
src/money/receipt/key.rs
    write_beside -> write_temp; Signer.telling -> with_format
src/money/sale.rs
    Totals.fees_kept -> fees_after_refunds; Totals.net_kept -> net_after_refunds
src/money/sale/tests.rs
    HeldUp.may_go -> permits
src/money/tests/keep.rs
    mod -> retention; Bench.kept -> retained; kept -> retained
src/money/tests/node.rs
    Chain.kept_from -> pruned_before
src/money/tests/remote.rs
    says -> replies
src/money/tests/sales.rs
    told -> event_data
src/money/x402/bazaar.rs
    way_of -> entry_method_of
src/money/x402/extensions.rs
    told -> extensions_json
src/money/x402/wire.rs
    Question.way -> entry_method
src/objects/lib.rs
    Promised.kept -> claim
src/operate/clock.rs
    told -> clock_finding
src/operate/machine.rs
    told -> machine_findings
src/replica/exchange.rs
    MOST_TOLD -> MAX_SENT; MOST_HEARD -> MAX_RECEIVED; Exchange.tell -> send; Exchange.hear -> receive
src/replica/follow.rs
    HEAR_EVERY -> POLL_EVERY; Followed.heed -> apply; hear_on -> poll_loop; Replica.hear -> poll
src/replica/formats.rs
    SELLERS_KEPT -> SELLERS_STORED
src/replica/keys.rs
    Agreed.said_by -> announced_by; Replica.say -> announce
src/replica/lease.rs
    KEPT_MS -> RETENTION_MS
src/replica/lib.rs
    HEEDED_FOR -> APPLY_WINDOW; Replica.told -> db_clock; Replica.has_heeded -> last_applied; Contact.heard -> last_contact; Contact.hear -> note_contact; Replica.telling -> with_db_clock; Replica.can_tell_ages -> can_expire
src/replica/tests.rs
    Holds.heeded() -> applied_numbers; Holds.heeded -> applied
src/replica/told.rs
    Replica.told -> wait_until_applied; Replica.heeded_by_all -> wait_for_all
src/replica/versions.rs
    Replica.say_formats -> announce_formats
src/store/batch.rs
    Batch.told -> changelog
src/store/changes.rs
    KEPT -> RETAINED; Changes.gone -> truncated
src/store/faulty.rs
    FaultyStore.beside -> sharing
src/store/journal/archive.rs
    kept -> archived_part
src/store/journal/part.rs
    Part.told -> change; read_told -> read_change
src/store/journal/reader.rs
    Reader.go_to -> seek
src/store/journal/room.rs
    Room.kept -> reserved
src/store/journal/tests/fuzz.rs
    laid -> placed
src/store/journal/walk.rs
    Walk.go_on -> next_segment
src/store/journal/writer.rs
    Writer.go_on -> next_file
src/store/memory.rs
    Held.told -> changelog; Held.tell -> log_change
src/store/movable.rs
    MovableStore.go -> switch
src/store/plan.rs
    Plan.kept -> retention
src/store/postgres/about.rs
    told -> query_info
src/store/postgres/call.rs
    Call.told -> changelog; told_bytes -> change_bytes
src/store/postgres/judge.rs
    told -> describe
src/store/postgres/sizes.rs
    Known.told -> total
src/store/sled.rs
    aside -> run_blocking
src/store/sled/config.rs
    SledConfig.kept_free_bytes -> reserved_bytes
src/store/sled/group.rs
    Group.told -> changelog
src/store/sled/home.rs
    mod -> tree_dir; gone -> is_gone
src/store/sled/keeper.rs
    mod -> sync_threads; Kept.let_go -> drop_segments; Keeper -> SyncThreads
src/store/sled/open.rs
    make_anew -> rebuild_tree
src/store/sled/renew.rs
    LETTING_GO -> DROP_THREAD; Making.kept -> background; Gentle.kept -> background; let_go -> drop_tree
src/store/sled/renewals.rs
    Renewals.kept -> background
src/store/sled/repair.rs
    Repair.kept -> retained; set_aside -> quarantine
src/store/sled/tree.rs
    ASIDE -> QUARANTINE; LETTING_GO -> DROP_THREAD; put_aside -> quarantine; forget_aside -> clear_quarantine
src/telemetry/course.rs
    Recorded.told -> attributes
src/telemetry/otlp/metrics.rs
    told -> metric_json
src/telemetry/span.rs
    Traced.told -> attributes
src/tool/approved.rs
    Field.told -> shown
src/tool/schema.rs
    told -> worker_schemas
src/web/cookie.rs
    Cookie.beside -> companion; Cookie.kept -> read
src/web/forms/again.rs
    said -> label
src/web/forms/known.rs
    Form.said -> notices; said -> notice
src/web/guides.rs
    Table.says -> rows
src/web/pages/admin/changes.rs
    told -> value_text
src/web/pages/admin/runtime.rs
    kept -> retention_table
src/web/pages/admin/shared.rs
    said -> text_of
src/web/pages/calls.rs
    Shown.whose -> viewer
src/web/pages/edit/draft.rs
    BESIDE -> EXTRA_FIELDS; Draft.go_on -> next_step
src/web/pages/edit/problems.rs
    told -> render_problems
src/web/pages/edit/sheet.rs
    Sheet.go_on -> next_step
src/web/pages/payouts.rs
    Shown.whose -> owner_fields
src/web/pages/register.rs
    said -> field; Terms.told -> render
src/web/pages/revenue/by_day.rs
    says -> caption; told -> format_amount
src/web/pages/settings/limits.rs
    told -> limit_cells
src/web/pages/tools.rs
    aside -> sidebar
src/web/pages/try_it.rs
    Asked.told -> respond
src/web/pages/try_it/answer.rs
    is_kept -> is_stored
src/web/pages/try_it/input.rs
    Given.told -> render
src/web/pages/try_it/memory.rs
    Memory.payments_beside -> other_payments
src/web/pages/try_it/offer.rs
    Offer.told -> explain; Offer.ways -> options; Offer.under_way -> in_progress
src/web/pages/try_it/step.rs
    anew -> restart; Edited.anew -> restarts
src/web/pages/usage.rs
    told -> format_duration
src/web/parts/calls.rs
    told -> call_stats
src/web/parts/chart.rs
    Chart.says -> caption
src/web/parts/diff.rs
    told -> render_row
src/web/parts/diff/line.rs
    BESIDE -> CONTEXT
src/web/parts/diff/rows.rs
    Table.tell -> push_op
src/web/parts/happened.rs
    told -> describe_event
src/web/parts/lines.rs
    said -> message; besides -> has_extras; says -> level_class
src/web/parts/schema.rs
    UNTOLD -> UNSHOWN; Reading.untold -> unshown; meant -> type_words; told -> render_row; Bounds.told -> render; Reading.meant -> type_of
src/web/parts/state.rs
    told -> badge
src/web/parts/text.rs
    told_bytes -> shown_bytes
src/web/refusal.rs
    told -> as_page
src/web/services.rs
    Services.kept -> rendered
tests/docs/named.rs
    KEPT -> RETAINED
tests/it/cli/call.rs
    told -> printed; under_way -> in_flight
tests/it/cli/call/seller.rs
    Books.heard_nothing -> lost; way -> term; Seller.hears_nothing -> loses_answers
tests/it/cli/devs.rs
    Dev.said() -> output; Dev.said -> printed; Dev.says -> wait_for
tests/it/cli/follow.rs
    Going.beside() -> stderr_lines; Going.beside -> stderr
tests/it/cli/harness.rs
    told_of_a_call -> call_output; Ran.said -> stderr_text; Wire.mend -> restore
tests/it/clients.rs
    pays_told -> pays_with_env
tests/it/cluster/changes.rs
    Subject.told -> value_in; Took.tell -> print
tests/it/cluster/rounds.rs
    tell -> print
tests/it/credentials.rs
    said -> message
tests/it/failures.rs
    told -> reported; TOLD -> REPORTED
tests/it/fixtures.rs
    late -> is_late
tests/it/harness/balancer.rs
    Balancer.told -> command
tests/it/harness/chain.rs
    OwnChain.told -> info
tests/it/harness/examples.rs
    Recorded.kept -> examples
tests/it/harness/facilitator.rs
    Told.told -> mode; Facilitator.tell -> set_mode
tests/it/harness/host.rs
    GONE_WITHIN -> EXIT_WITHIN; Host.beside -> second
tests/it/harness/raw.rs
    Raw.hears_within -> receives_within
tests/it/harness/stream.rs
    told -> parse_event
tests/it/hostile.rs
    Fixture.late -> is_late
tests/it/kept.rs
    told -> snapshot; is_kept -> assert_unchanged
tests/it/mcp/calls.rs
    said -> message
tests/it/owners.rs
    SAYS -> MESSAGE; ways -> call_paths
tests/it/portable.rs
    SAYS -> MESSAGE
tests/it/replicas.rs
    HEARD_WITHIN -> RECEIVED_WITHIN
tests/it/replicas/feeds.rs
    SAYS -> LOGGER; said -> line_number; Hosts.say -> log_line
tests/it/schemas.rs
    SAYS -> MESSAGE
tests/it/telemetry/collector.rs
    Collector.kept -> state; Span.told -> attribute
tests/it/telemetry/traces.rs
    WAY -> STAGES
tests/it/unclear.rs
    said -> rpc_error
tests/it/unpaid.rs
    TOO_LATE -> EXPIRED
tests/it/upgrades.rs
    kept -> fixture_data
tests/it/ways.rs
    WAYS -> CALL_PATHS; says_json -> is_json_type; told -> parse_result
tests/it/web.rs
    meant -> intended
tests/it/web/keeping.rs
    kept -> published_tool
tests/store_contract/changes.rs
    told -> change; telling -> followed_batch
tests/store_contract/cut.rs
    Cut.telling -> address
tests/store_contract/locked.rs
    Session.lets_go -> release
tests/store_contract/questions.rs
    told -> rows_of
tests/store_contract/renewal.rs
    Renewed.under_way -> in_progress
tests/tidy/circles.rs
    way_back -> path_back; told -> cycle_text
xtask/bench/src/cli.rs
    told -> print_row
xtask/bench/src/fairness.rs
    beside -> run_beside
xtask/bench/src/ledger.rs
    KEPT_UP -> IN_FLIGHT
xtask/bench/src/paid.rs
    beside_express -> compare_to_express
xtask/bench/src/soak/judge.rs
    TELLING -> SAMPLES_NEEDED
xtask/mutants/src/main.rs
    Report.tell -> print
xtask/mutants/src/tests.rs
    heard -> run_output
xtask/src/chain.rs
    Chain.told() -> info_field; Chain.told -> info
xtask/src/dist/check.rs
    said -> print_step
xtask/src/faces.rs
    Place.tell -> run_story
xtask/src/vendor.rs
    KEPT -> VENDORED

# --- more functions, methods, fields, modules ---
sandbox/pool/src/ahead.rs
    mod -> send_ahead
sandbox/pool/src/alarm.rs
    mod -> watchdog_alarm; hurry -> set_hurried
sandbox/pool/src/breaker.rs
    kills -> stops; any_within -> has_stops_within; is_forgotten -> is_expired; runs_show_the_code -> blames_code
sandbox/pool/src/core.rs
    discard -> kill_process
sandbox/pool/src/exchange/end.rs
    unfit_if_unlisted -> mismatch_if_unlisted
sandbox/pool/src/faults.rs
    mod -> blame; weighed -> count_weighted
sandbox/pool/src/groups.rs
    mod -> cgroups; hold_to -> limit_to; take_in -> add_process
sandbox/pool/src/groups/own.rs
    divide -> split; is_all -> covers_machine
sandbox/pool/src/idle.rs
    spares_to_come -> pending_spares
sandbox/pool/src/ledger.rs
    mod -> call_account; Ledger -> CallLedger; cut_thrown -> truncate_thrown; shows_a_handler -> proves_handler_ran
sandbox/pool/src/maintenance.rs
    look_at_everyone -> inspect_all
sandbox/pool/src/namespace.rs
    come_back -> rejoin
sandbox/pool/src/pipeline.rs
    room_in -> capacity_in
sandbox/pool/src/process.rs
    note_own_bytes -> record_own_bytes; place_to_stand_in -> standin_slot; stand_in -> standin; stand_in_at -> standin_at; stand_in_of -> standin_of; stand_in_that -> standin_that; stand_in_with -> standin_with; was_killed_from_outside -> was_killed_externally; hold_to -> limit_to
sandbox/pool/src/places.rs
    take_unwanted -> take_unused
sandbox/pool/src/reaper.rs
    is_from_outside -> is_external
sandbox/pool/src/scheduler.rs
    forget_absent -> prune_idle
sandbox/pool/src/scheduler/owners.rs
    forget_absent -> prune_idle; remembers_nobody -> is_empty_of_owners
sandbox/pool/src/scheduler/queue.rs
    forget_absent -> prune_idle; remembers_nobody -> is_empty_of_owners; counts_nobody -> counts_no_owner; leave_line -> dequeue_waiter; leaves_nobody_waiting -> is_work_conserving; give_back -> release; make_place -> evict_for
sandbox/pool/src/scheduler/line.rs
    send_away -> reject; last_of_most -> last_of_largest
sandbox/pool/src/scheduler/waiter.rs
    send_away -> reject
sandbox/pool/src/spares.rs
    mod -> spare_workers; boot_unnoted -> boot_uncounted; make_room -> evict_one; make_room_for_spares -> evict_for_spares
sandbox/pool/src/turns.rs
    mod -> cpu_turns
sandbox/pool/src/users.rs
    give_back -> release; to_give -> next_free; to_give_with -> next_free_with; may_give -> can_allocate; most_with -> max_with
sandbox/pool/src/watchdog.rs
    have_turn -> give_turn; starves_since -> starved_since; regain_pace -> restore_pace
sandbox/pool/src/wire.rs
    nothing_to_send -> is_sent; nothing_to_take -> is_drained
sandbox/pool/src/lease.rs
    may_serve_on -> is_reusable
sandbox/pool/src/zygote.rs
    may_yet_boot -> may_still_boot; born -> forked; fork -> fork_worker
sandbox/worker/src/budget.rs
    parked -> paused; patrol -> watch_loop
sandbox/worker/src/engine.rs
    tidy -> cleanup_globals
sandbox/worker/src/fatal.rs
    mod -> crash_handler
sandbox/worker/src/heap.rs
    give_back -> subtract; given -> add
sandbox/worker/src/host.rs
    claim_last_words -> claim_final_message; last_words -> final_message; turn_to -> switch_socket
sandbox/worker/src/jail/calls.rs
    mod -> syscalls; has_keys -> has_keyctl
sandbox/worker/src/jail/namespaces.rs
    be_first -> become_init
sandbox/worker/src/jail/resources.rs
    die_first -> raise_oom_score; hard -> set_limit
sandbox/worker/src/memory.rs
    give_back -> release_bytes
sandbox/worker/src/nesting.rs
    judge -> classify; too_deep -> is_too_deep
sandbox/worker/src/ops/asks.rs
    mod -> host_ops
sandbox/worker/src/ops/end.rs
    mod -> outcome
sandbox/worker/src/rehearsal.rs
    mod -> warm_up; rehearse -> warm_up
sandbox/worker/src/worker.rs
    begin_life -> start_loop; interrupt_nobody -> clear_interrupt; rehearse -> warm_up; turn_to -> switch_socket; take_in -> accept_bundle
sandbox/worker/src/zygote.rs
    move_to_place -> join_group; take_all_along -> inherit_group; thread_place -> thread_group
src/account/admin.rs
    mod -> admin_token
src/account/builder.rs
    judge -> set_standing; judged -> standing
src/account/session/token.rs
    mod -> cookie_token
src/app/control.rs
    move_to -> migrate_to
src/app/jobs.rs
    rounds -> run_sweeps; ship -> publish_seed_tools
src/app/keys.rs
    agree -> agree_with_replicas; ours -> own_key; theirs -> stored_key
src/app/measure.rs
    mod -> gauges
src/app/reach.rs
    mod -> facilitator_check
src/base/aside.rs
    off_the_runtime -> drop_off_runtime
src/base/clock.rs
    follow -> follow_remote
src/base/flaws.rs
    looked_at -> checked_count; look -> count_checked; sound -> is_clean
src/base/causes.rs
    in_full -> full_message
src/base/share.rs
    for_turn -> turn_for; others_ask -> is_contended_by_others; forget_quiet -> prune_idle
src/base/penalty.rs
    forget_quiet -> prune_idle; penalties -> limiter; has_failed -> record_failure
src/base/rate.rs
    forget_quiet -> prune_idle
src/base/steady.rs
    doubt_since -> unsteady_since; pass -> tick
src/base/uses.rs
    forget_quiet -> prune_idle; make_room -> evict; whole_at -> full_at
src/base/unseen.rs
    is_unseen -> is_invisible
src/base/queues.rs
    one_over -> pop_over_limit
src/call/bought.rs
    again -> replay; bought -> find_paid; bought_under -> paid_under; try_join -> join_running
src/call/content.rs
    essence -> mime_essence; in_utf8 -> to_utf8
src/call/digits.rs
    behind_string -> after_string
src/call/lib.rs
    came_to_nothing -> record_failed_call; for_nothing -> free_call; taken_back -> canceled; takes_calls -> is_callable; perform_here -> run_local
src/call/history.rs
    chapter -> batch_rows; end_of_pack -> pack_end; thrown_at -> throw_position
src/call/metrics.rs
    fade -> drop_expired; forget_quiet -> prune_idle; adding -> pending_bucket
src/call/new_call.rs
    words -> reason_text
src/call/run/produced.rs
    unfitting -> is_mismatch
src/call/register.rs
    register_here -> register_builder
src/capability/files.rs
    to_its_end -> run_to_end; collect_soon -> schedule_collection
src/capability/guard.rs
    without_dot -> strip_root_dot
src/capability/lib.rs
    collect_soon -> schedule_collection; in_scratch -> is_dry_run
src/capability/log/clean.rs
    mod -> sanitize; clean -> sanitize; clean_json -> sanitize_json
src/capability/log/waiting.rs
    is_pressing -> is_nearly_full; forget_quiet -> prune_idle
src/capability/log/writer.rs
    tried -> run_logged
src/capability/scope.rs
    mod -> usage; alone -> lock_endpoint
src/capability/scratch.rs
    mod -> dry_run; Scratch -> DryRunStore
src/capability/secret/memory.rs
    mod -> process_memory
src/catalog/change.rs
    looked_at -> checked_patch; stand -> apply_standing; update_looked -> update_checked
src/catalog/commit.rs
    at_hand -> from_memory
src/catalog/deletion.rs
    done_once -> delete_once; now_for_sure -> strict_now
src/catalog/find.rs
    find_again -> refetch; find_in_turn -> fetch_serialized
src/catalog/follow.rs
    passed_over -> skip_unreadable; is_left -> is_remaining
src/catalog/lib.rs
    remade -> rebuild; readings -> reads; put_in_force -> apply_policy; rearrange -> rebuild_snapshot; judged -> builder_standing
src/catalog/made.rs
    made_again -> rebuild
src/catalog/nearest.rs
    plainly -> normalized
src/catalog/scan.rs
    held_after -> hold_after; would_be_held -> would_hold; is_anothers -> belongs_to_other; weigh -> weigh_findings
src/catalog/snapshot.rs
    standing -> state_of
src/catalog/sorted.rs
    mod -> sorted_set; Sorted -> SortedSet
src/catalog/suspend.rs
    judge -> load_standing; remade_for -> rebuild_for
src/catalog/words.rs
    keep_words -> store_index; read_words -> load_index; order_words -> rebuild_index
src/catalog/version.rs
    unneeded -> is_unreferenced; try_schemas -> compile_schemas
src/cli/base/answer.rs
    away -> is_unavailable
src/cli/base/clean.rs
    mod -> sanitize
src/cli/base/folder.rs
    mod -> tool_state
src/cli/base/out.rs
    mod -> output; harmless -> sanitized
src/cli/base/pages.rs
    mod -> paging
src/cli/base/places.rs
    mod -> private_files; homeless -> no_home_error
src/cli/base/words.rs
    mod -> text
src/cli/base/prompt.rs
    from_now_on -> install_handler; insist -> require_terminal; typed_unseen -> read_hidden
src/cli/base/follow.rs
    nobody_reads -> is_reader_gone
src/cli/call/tell.rs
    mod -> dry_run
src/cli/change.rs
    slower -> confirm_slow_change
src/cli/deploy.rs
    strange -> unknown_tool
src/cli/dev/publishes.rs
    begin_cases -> start_cases
src/cli/dev/watch.rs
    hindering -> is_blocking; mind -> ignore_own; settled -> wait_until_quiet
src/cli/builders.rs
    judge -> decide
src/cli/credits.rs
    judge -> revoke_or_restore
src/cli/local.rs
    put_onto -> publish_to
src/cli/misread.rs
    keep_back -> strip_values; misread -> usage_error
src/cli/operator/check.rs
    if_asked -> run_if_requested
src/cli/operator/doctor/public.rs
    whom -> target
src/cli/pay/answer.rs
    judge -> verdict_of
src/cli/pay/choose.rs
    judge -> check_terms; over -> over_limit
src/cli/pay/means.rs
    whereabouts -> source_of_limit
src/cli/pay/perform.rs
    became -> final_state
src/cli/pay/keyfile.rs
    mod -> key_file; sync_folder -> fsync_dir
src/cli/pay/sign.rs
    mod -> draft
src/cli/plan/base.rs
    mod -> baseline; Base -> Baseline
src/cli/tool/place.rs
    mod -> position; Place -> FilePosition; hanging_on -> trailing; hangs_on -> continues
src/cli/tool/scratch.rs
    mod -> temp_folder; Scratch -> TempFolder
src/cli/trial.rs
    is_away -> is_unavailable; unasked -> not_run
src/config/environment.rs
    misspelt -> misspelled; misspelt_of -> misspelled_of; of_others -> is_foreign
src/config/told.rs
    as_they_stand -> raw_settings; blame -> blame_settings
src/front/compress.rs
    weakened -> weak_etag
src/front/failures.rs
    mod -> auth_failures; forget_quiet -> prune_idle
src/front/intake.rs
    mod -> memory_budget
src/front/limits.rs
    mod -> rate_limits; forget_quiet -> prune_idle
src/front/origins.rs
    mod -> allowed_origins
src/front/params.rs
    mod -> extractors
src/front/quota.rs
    take_beyond -> take_over_limit
src/front/serve/pulse.rs
    hoards -> is_hoarding; forfeited -> is_forfeited; earn -> credit_frames; quiet -> idle_for
src/front/names.rs
    mod -> header_names
src/front/shared.rs
    mod -> front_services
src/http/about.rs
    mod -> record_extras
src/http/documents/library.rs
    outward -> absolute_links; unlinked -> without_links
src/http/documents/plain.rs
    mod -> plain_text
src/http/follow.rs
    mod -> event_stream
src/http/reply.rs
    bare -> without_body
src/http/metrics.rs
    is_let_in -> is_allowed; is_from_here -> is_local
src/http/navigated.rs
    by_a_person -> is_browser_navigation
src/http/page.rs
    no_end -> without_total
src/mcp/accept.rs
    mod -> accepted_forms
src/mcp/card.rs
    mod -> server_card
src/mcp/offer.rs
    mod -> dialect
src/mcp/tasks/look.rs
    mod -> poll
src/mcp/tasks/told.rs
    mod -> views
src/mcp/begun.rs
    happened -> on_progress; performing -> run
src/mcp/call.rs
    waited_for -> wait
src/mcp/refusal.rs
    spoken -> on_wire
src/mcp/settings.rs
    forget_quiet -> prune_idle
src/mcp/transport.rs
    too_fast -> rate_limited
src/money/accept.rs
    mod -> payment_config; suits -> is_acceptable
src/money/credit/give_back.rs
    give_back -> refund
src/money/credit/judge.rs
    judge -> decide; take_rest -> drain; stop -> revoke
src/money/credit/spend.rs
    give_back -> release; narrow -> shrink
src/money/facilitator.rs
    take_burned -> drain_burned
src/money/facilitator/chain/judge.rs
    judge -> nonce_state; judgement -> classify; spent_lately -> is_recently_spent
src/money/facilitator/chain/node.rs
    away -> unavailable
src/money/facilitator/kind.rs
    plays -> is_simulated; elsewhere -> is_remote; sends -> sends_transactions
src/money/facilitator/kind/evm.rs
    diagnosis -> diagnose
src/money/facilitator/kind/evm/desk.rs
    hurry -> poll_soon; mind -> track; work -> run; missing -> is_missing
src/money/facilitator/kind/evm/flights.rs
    give_back -> release_nonce; take_back -> cancel; former -> replaced_hashes; stuck -> stuck_tx
src/money/facilitator/kind/evm/gas.rs
    look_again -> refresh; low -> is_low; take_burned -> drain_burned; suffices -> is_enough
src/money/facilitator/kind/evm/nonces.rs
    good_for -> is_usable
src/money/facilitator/kind/evm/order.rs
    poor -> insufficient_funds; made_by -> signed_by
src/money/facilitator/kind/reach.rs
    mod -> reachability; ill -> failing; well -> passing; is_of -> matches_host
src/money/facilitator/kind/remote.rs
    judge_of -> verdict_for; doubt -> mark_uncertain; settle_once -> try_settle
src/money/facilitator/kind/remote/said.rs
    turned_away -> was_rejected; refuses_host -> rejects_host
src/money/facilitator/kind/remote/supported.rs
    shuts_out -> excludes
src/money/facilitator/kind/remote/window.rs
    behind_another -> queued_behind; in_row -> in_a_row
src/money/facilitator/post.rs
    mod -> json_client
src/money/facilitator/view.rs
    mod -> chain_view
src/money/finisher.rs
    mod -> receipt_trait
src/money/gate.rs
    purse -> balance_key; purses -> balance_holds; purses_held -> held_balances; read_among_others -> read_shared; forget_quiet -> prune_idle; lanes -> poll_slots; orphans -> orphaned
src/money/gate/agrees.rs
    mod -> consistency
src/money/gate/asked.rs
    mod -> facilitator_calls
src/money/gate/elsewhere.rs
    mod -> settled_elsewhere
src/money/gate/admit.rs
    slowed_by -> check_run_limits; with_flaw -> with_challenge
src/money/gate/answer.rs
    lay -> stage; into_apart -> detach; keep -> store_answer
src/money/gate/funds.rs
    mod -> balance_holds; purse -> key_of; purses -> balance_holds
src/money/gate/gas.rs
    forget_quiet -> prune_idle; excuse -> forgive
src/money/gate/recent.rs
    forget_old -> prune
src/money/gate/recovery.rs
    give_back -> release_reservation; give_back_orphans -> release_orphans; release_left -> release_departed; take_up -> resume; take_over -> take_over_from; look_again -> recheck
src/money/gate/settle.rs
    intend -> write_intent; ended_as -> outcome_of; ending -> end_batch; unprepared -> prepare_failed
src/money/gate/throttle.rs
    forget_quiet -> prune_idle; excuse -> forgive; make_room -> evict
src/money/gate/watch.rs
    mod -> reorg_watch; look_at -> check_settlement; look_for_missing -> find_missing
src/money/ledger/check/kept.rs
    mod -> immutable_rows
src/money/payout/agrees.rs
    mod -> consistency
src/money/sale/agrees.rs
    mod -> consistency
src/money/payout/collect.rs
    withholds -> is_withheld
src/money/receipt/key.rs
    is_lost -> is_truncated
src/money/receipt/free.rs
    in_packs -> group_by_pack
src/money/refund/give.rs
    give -> issue; also_for -> with_transaction
src/money/sale.rs
    some -> has_sales
src/money/x402/eip3009.rs
    flaw_of_form -> format_error; with_usual_v -> normalize_v
src/money/x402/signed.rs
    flaw_of_form -> format_error; set_usual_v -> normalize_v
src/objects/lib.rs
    keep_tidy -> collect_garbage; put_apart -> quarantine; collect_soon -> schedule_collection; all_stays -> is_paused
src/replica/follow.rs
    keep_house -> run_maintenance
src/replica/formats.rs
    up_to -> through
src/replica/seen.rs
    lives -> is_live
src/store/journal/room.rs
    ask_system -> query_system
src/store/postgres/keeper.rs
    mod -> maintenance
src/store/postgres/lane.rs
    each_alone -> commit_separately; chance -> jitter
src/store/postgres/pending.rs
    give_back -> requeue
src/store/postgres/reader.rs
    stand_still -> read_only_snapshot
src/store/sled/away.rs
    mod -> sled_error; away -> sled_error
src/store/sled/begin.rs
    mod -> init_journal
src/store/sled/disk.rs
    look_for_room -> check_disk_space
src/store/sled/older.rs
    mod -> legacy_values
src/store/sled/open.rs
    bring -> replay; bring_from -> replay_from; look_at_checkpoint -> check_checkpoint
src/store/sled/renew.rs
    is_close -> is_caught_up; too_fast -> is_outpaced; renew -> rebuild
src/store/sled/standing.rs
    is_whole_again -> mark_repaired
src/store/sled/keeper.rs
    look_after_writer -> watch_writer; walk_still -> walk_frozen; renew -> rebuild
src/store/sled/values.rs
    weigh -> size_change
src/store/upkeep.rs
    mod -> maintenance; keep_up -> maintain
src/store/value.rs
    no_sum -> not_a_sum
src/tool/approved.rs
    mod -> reviewed_fields
src/web/api.rs
    mod -> api_client
src/web/forms/places.rs
    mod -> form_urls
src/web/pages/admin/caps.rs
    mod -> tool_limits
src/web/pages/admin/verdict.rs
    mod -> review_form
src/web/pages/find_slip.rs
    mod -> receipt_lookup
src/web/pages/own.rs
    mod -> owner_pages
src/web/pages/edit/told/outcome.rs
    mod -> run_result
src/web/parts/places.rs
    mod -> page_links
src/web/parts/same.rs
    mod -> cli_hint
src/web/parts/since.rs
    mod -> time_range
src/web/visitor.rs
    work_in -> run_for; ask_about -> fetch_about
tests/it/bound.rs
    mod -> payment_binding
tests/it/burned.rs
    mod -> burned_gas
tests/it/granted.rs
    mod -> capability_grants
tests/it/long.rs
    mod -> long_texts
tests/it/operated.rs
    mod -> operator_checks
tests/it/reading.rs
    mod -> text_documents
tests/it/received.rs
    mod -> request_forms
tests/it/renewed.rs
    mod -> index_rebuild
tests/it/twice.rs
    mod -> payment_ids
tests/it/unclear.rs
    mod -> unclear_answers
tests/it/under_way.rs
    mod -> in_flight_bytes
tests/it/words.rs
    mod -> error_messages
tests/it/web/earning.rs
    mod -> revenue
tests/it/web/governing.rs
    mod -> admin_tools
tests/it/web/keeping.rs
    mod -> tool_settings
tests/it/web/making.rs
    mod -> tool_forms
tests/it/web/overseeing.rs
    mod -> admin_pages
tests/it/web/seals.rs
    mod -> response_headers
tests/it/web/slips.rs
    mod -> receipts
tests/it/cli/bars.rs
    mod -> conventions
xtask/bench/src/neighbours.rs
    mod -> neighbors
runtime-js/01_errors.js
    told -> seen; said -> advice
runtime-js/01_inspect.js
    tell -> note; saysItself -> hasOwnJson
runtime-js/02_console.js
    tellTime -> logTime; told -> elapsed
runtime-js/06_url.js
    kept -> replaced
runtime-js/07_events.js
    kept -> remaining; gone -> removed

# --- names that mean the same wherever they are: a folder, or `*` for all; what a file says above counts first ---
src/call/new_call.rs
    NewCall.begun -> clock_start
src/web/pages/admin/shared.rs
    why() -> reason_field
src/cli/operator/doctor.rs
    .said -> schemes
src/money/gate.rs
    .give_back -> release_reservation
src/money/tests/refund.rs
    .judge -> decide
src/catalog/commit.rs
    why() -> unavailable_reason
src/money/tests.rs
    begun() -> started_settlement
src/money/gate/settle.rs
    .keep -> store_answer
sandbox/pool/src/maintenance.rs
    .kills -> kills
src/app/lib.rs
    .telling -> with_format
src/http/documents.rs
    .told -> responds
src/mcp/server.rs
    .told -> list_result
src/web/pages/try_it/offer.rs
    .beside -> companion; .kept -> read
src/capability/guard/fetch.rs
    .kept -> cache
src/capability/guard/dns/tests.rs
    .kept -> cached
src/store/sled/disk.rs
    .told -> changelog
tests/store_contract/damage.rs
    .kept -> retained
src/call/tests/
    .go -> proceed
tests/it/cli/
    .said -> stderr_text
tests/it/telemetry/
    .told -> attribute
src/web/
    let told -> ?|rendered|shown_html
src/app/
    let rooms -> services; rooms -> services
src/
    let bench -> fixture; Bench -> Fixture; bench -> fixture; gate -> payments; let gate -> payments
sandbox/pool/
    let place -> slot; let places -> slots; place -> slot; places -> slots; let house -> pool|test_pool; house -> pool
tests/it/
    let scene -> fixture|env
src/mcp/
    let place -> permit|position; let places -> permits
*
    let told -> ?|reported|output|shown
    let said -> ?|message|text|reply|spoken
    let says -> text|message|wording
    let kept -> stored|retained|cached
    let gone -> removed|missing
    let heard -> received|seen
    let untold -> unreported
    let way -> method|option|route
    let ways -> options|methods|routes
    let till -> charge|metered
    let laid -> staged
    let sought -> target|wanted_stems
    let meant -> expected|intended
    let whose -> owner|subject
    let why -> reason|cause|detail
    let patience -> timeout|limit
    let most -> max|maximum
    let longest -> max_len|limit
    let left -> remaining|leftover
    let took -> elapsed|duration
    let began -> started|started_at
    let begun -> started|in_progress
    let asked -> request|query|requested
    let wanted -> requested|required|filter
    let place -> position|location|spot
    let places -> positions|locations|spots
    let came -> received|reply
    let went -> outcome|result
    let became -> outcome|result
    let looked -> checked|inspected
    let anew -> again|fresh
    let beside -> alongside|extras
    let untold_before -> unreported_before
    why -> reason; patience -> timeout; PATIENCE -> TIMEOUT; MOST -> MAX; MOST_BYTES -> MAX_BYTES; MOST_CHARS -> MAX_CHARS; MOST_WAYS -> MAX_TERMS
    LONGEST -> MAX_LEN; LONGEST_MS -> MAX_MS; LONG_PATIENCE -> LONG_TIMEOUT; JOIN_PATIENCE -> JOIN_TIMEOUT; BALANCE_PATIENCE -> BALANCE_TIMEOUT
    boot_patience -> boot_timeout; lock_patience -> lock_timeout; zygote_patience -> zygote_timeout; pipeline_patience -> pipeline_timeout; with_patience -> with_timeout
    most_usd -> max_usd; most_bytes -> max_bytes; most_of_address -> max_per_address; most -> max
    took -> elapsed; left -> remaining; begun -> started; began -> started_at; begun_ms -> started_ms; LOOK_EVERY -> POLL_EVERY
    wanted -> requested; rounds_asked -> rounds_requested; let_go -> release; gone_on -> continued
    let rounds_asked -> rounds_requested; let begun_ms -> started_ms; let most_usd -> max_usd; let most_bytes -> max_bytes
    colours -> colors; recognise -> recognize; let colours -> colors; let colour -> color; licence -> license; licences -> licenses; let licence -> license; let licences -> licenses
    let neighbours -> neighbors; let neighbour -> neighbor; let honoured -> honored; cancelled -> canceled; let cancelled -> canceled
    token CHANGES_KEPT -> MAX_CHANGES; token KeptCopy -> CopyReport
    word MOST_ -> MAX_; word most_ -> max_; word LONGEST_ -> MAX_; word longest_ -> max_
    field asked -> requested; field place -> position; field places -> positions; field looked_at -> checked_at; field late -> is_late
    let tell -> report|notify; let under_way -> in_flight|running; let looked_at -> checked_at
"""

TESTS = r"""
# Whole names, which were too long.
= a_backup_has_ledger_receipts_and_catalogue_of_one_moment_while_all_of_them_change -> a_backup_is_consistent_while_ledger_receipts_and_catalog_change
= a_change_that_is_answered_holds_at_all_hosts_and_for_the_next_op_of_what_runs_there -> an_answered_change_holds_at_all_hosts_and_for_running_calls
= a_change_waits_for_no_host_that_stands_still_and_that_one_goes_by_nothing_older_when_it_goes_on -> a_change_skips_a_stalled_host_which_serves_nothing_stale_later
= a_job_of_a_replica_that_is_gone_is_taken_and_what_comes_late_of_it_does_not_happen -> a_job_of_a_dead_replica_is_taken_over_and_its_late_writes_are_fenced
= a_large_answer_outlives_a_restart_and_one_that_is_lost_is_told_and_not_sold_again -> a_large_answer_survives_a_restart_and_a_lost_one_is_not_sold_again
= a_large_answer_that_one_host_gave_is_the_same_at_the_other_also_when_the_first_is_gone -> a_large_answer_is_the_same_at_another_host_after_the_first_is_gone
= a_nonce_that_a_host_of_the_same_store_took_and_never_sent_is_used_up_by_the_one_that_waits_for_it -> a_nonce_another_host_never_sent_is_used_by_the_host_that_waits
= a_nonce_that_was_given_back_before_the_node_is_asked_again_is_one_transactions_too -> a_nonce_released_before_the_next_poll_is_used_once
= a_nonce_that_was_given_back_is_used_up_for_those_that_wait_and_for_more_if_need_be -> a_released_nonce_is_filled_for_the_transactions_that_wait
= a_payment_of_a_quoted_price_that_was_not_taken_buys_at_that_price_while_the_quote_holds -> an_unsettled_payment_of_a_quote_buys_at_that_price_while_it_holds
= a_payment_whose_transaction_was_broadcast_is_settled_whatever_the_gateway_answers -> a_broadcast_payment_is_settled_whatever_the_gateway_answers
= a_permit_that_a_facilitator_could_not_run_is_asked_of_the_chain_before_it_is_refused -> a_failed_permit_is_looked_up_on_the_chain_before_it_is_refused
= a_registration_whose_caller_hung_up_has_its_key_for_the_next_who_shows_the_payment -> a_registration_keeps_its_key_for_a_retry_after_a_hangup
= a_replica_whose_lease_was_over_is_fenced_until_it_has_heard_what_was_told_without_it -> a_replica_with_an_expired_lease_is_fenced_until_it_caught_up
= a_report_beside_sales_and_folds_is_never_less_than_what_was_there_nor_more_than_what_is -> a_report_during_sales_and_folds_is_neither_low_nor_high
= a_seller_that_asks_in_no_known_way_or_not_at_all_is_told_so_and_few_are_asked_at_once -> an_unknown_seller_gets_an_error_and_few_are_asked_at_once
= a_seller_that_takes_posts_alone_is_asked_so_and_a_method_that_is_said_is_the_only_one -> a_seller_that_takes_only_posts_is_asked_by_post
= a_settlement_that_a_reorganization_takes_back_is_told_everywhere_until_it_is_back -> a_reorganized_settlement_is_reported_everywhere_until_it_returns
= a_settlement_whose_transaction_is_nowhere_may_be_sent_again_while_its_nonce_is_unspent -> a_lost_settlement_can_be_resent_while_its_nonce_is_unspent
= a_tool_whose_source_cannot_be_read_is_refused_before_it_is_paid_and_can_be_held_back -> a_tool_with_unreadable_source_is_refused_before_payment
= a_transaction_that_another_one_took_the_place_of_is_sent_anew_though_the_node_keeps_it -> a_replaced_transaction_is_resent_though_the_node_keeps_it
= an_address_that_has_shown_too_many_wrong_credentials_to_one_host_waits_at_the_other -> an_address_with_too_many_wrong_credentials_waits_at_every_host
= an_answer_that_offers_nothing_usable_is_no_route_and_its_words_are_told_to_nobody -> an_unusable_answer_is_no_route_and_its_text_stays_private
= an_approved_request_names_its_version_and_is_reopened_as_far_as_it_was_not_granted -> an_approval_names_its_version_and_reopens_what_was_not_granted
= an_input_that_does_not_fit_is_its_callers_fault_although_listing_why_would_not_end -> an_invalid_input_is_the_callers_fault_even_if_listing_is_endless
= another_token_on_the_same_chain_is_swapped_and_the_same_one_on_another_is_bridged -> another_token_is_swapped_and_another_chain_is_bridged
= as_many_rows_as_may_be_looked_at_are_added_up_and_an_account_with_more_is_told_without -> an_account_with_too_many_rows_is_reported_without_a_balance
= call_in_a_folder_trusts_no_note_that_came_with_it_and_shows_its_host_no_credential -> call_in_a_folder_trusts_no_foreign_note_and_sends_no_credential
= call_makes_way_for_another_owner_s_before_its_quantum_is_over_and_for_its_own_owner_s_not -> a_call_yields_early_to_another_owner_but_not_to_its_own
= call_that_does_not_fit_beside_those_that_run_is_refused_and_served_when_they_have_ended -> a_call_without_memory_is_refused_and_served_once_others_end
= call_waits_for_a_place_for_as_long_as_what_it_lacks_takes_and_has_the_idle_make_room -> a_call_waits_for_a_slot_and_evicts_idle_workers
= chain_that_the_stack_does_not_hold_is_told_by_its_line_or_by_that_of_the_call_which_needs_it -> a_chain_too_deep_for_the_stack_is_reported_by_its_line
= content_stays_when_nobody_knows_whether_its_entry_was_written_and_goes_if_it_was_not -> content_stays_while_its_entry_is_uncertain_and_goes_if_unwritten
= doctor_tells_of_a_profile_who_reads_its_files_and_whether_its_host_takes_what_is_kept -> doctor_checks_a_profiles_files_and_whether_its_key_works
= each_process_is_in_a_namespace_of_its_own_where_the_system_lets_it_and_the_next_one_here_again -> each_process_has_its_own_namespace_where_the_system_allows_it
= hold_of_code_is_for_all_and_ends_neither_by_an_answer_nor_by_runs_that_are_stopped -> a_hold_on_code_is_for_all_and_no_run_ends_it
= hosts_of_one_store_leave_each_others_transactions_and_count_on_behind_those_of_strangers -> hosts_of_one_store_leave_each_others_transactions_alone
= money_has_moved_only_where_an_answer_says_so_and_has_not_only_where_it_names_no_transaction -> money_moved_only_if_the_answer_says_so_or_names_a_transaction
= mutations_are_the_same_ones_every_time_within_their_length_and_differ_from_one_another -> mutations_are_deterministic_bounded_and_distinct
= nobody_waits_for_a_replica_that_has_left_nor_as_long_as_a_lease_for_one_that_is_silent_and_fenced_by_then -> nobody_waits_for_a_departed_replica_or_a_full_lease_for_a_silent_one
= of_who_sold_nothing_since_then_the_hosts_revenue_reads_one_row_and_none_once_sellers_are_listed -> revenue_reads_one_row_of_idle_sellers_and_none_once_they_are_listed
= one_replica_asks_about_what_a_dead_one_left_and_whoever_comes_back_leaves_it_to_that_one -> one_replica_takes_over_the_settlements_of_a_dead_one
= owner_that_computes_goes_behind_one_that_does_not_although_that_had_the_last_turn -> an_owner_that_computes_queues_behind_one_that_does_not
= packets_of_a_state_come_page_by_page_and_of_one_that_none_is_in_nothing_is_looked_for -> payouts_of_a_state_are_paged_and_an_empty_state_reads_nothing
= runs_for_nothing_are_few_where_one_payer_moves_its_money_away_and_pays_now_and_then -> unpaid_runs_are_few_where_a_payer_moves_its_money_away
= runs_that_several_callers_see_stopped_hold_the_endpoint_for_these_until_somebody_is_answered -> stops_of_several_callers_hold_the_endpoint_for_them_until_an_answer
= runs_that_several_callers_see_stopped_hold_the_endpoint_unless_somebody_is_answered -> stops_of_several_callers_hold_the_endpoint_unless_one_is_answered
= solana_is_not_asked_for_while_nobody_completes_transactions_or_when_they_end_before_the_tool -> solana_is_not_offered_without_a_fee_payer_or_for_slow_tools
= the_token_is_called_with_what_the_payer_signed_and_gas_by_half_more_than_it_needs -> the_token_call_has_the_signed_terms_and_half_more_gas
= those_that_died_or_speak_unasked_are_swept_as_faults_and_those_gone_stale_as_none -> dead_or_unruly_workers_are_faults_and_stale_ones_are_not
= three_let_through_no_more_than_one_may_and_what_passes_before_they_hear_of_each_other -> three_hosts_exceed_the_limit_only_until_they_exchange_counts
= turns_come_one_a_period_whatever_became_of_the_last_one_until_nobody_holds_what_they_are_for -> turns_come_once_a_period_until_their_subject_is_dropped
= units_are_worth_what_they_are_down_to_a_micro_dollar_and_too_many_to_count_nothing_that_is_told -> units_convert_to_micro_dollars_and_overflow_is_none
= what_a_wallet_did_not_sign_is_refused_and_a_node_that_cannot_tell_decides_nothing -> an_unsigned_payment_is_refused_and_a_failing_node_decides_nothing
= what_is_decided_of_a_tool_whose_source_was_not_read_reaches_the_call_that_reads_it -> a_decision_reaches_the_call_that_loads_the_source
= what_is_given_back_is_told_to_all_whom_it_concerns_and_the_receipt_still_verifies -> a_refund_is_visible_to_both_sides_and_the_receipt_still_verifies
= what_only_servers_may_have_is_hidden_from_the_handler_and_what_it_reads_itself_is_not -> server_only_secrets_are_hidden_from_the_handler
= workers_leave_the_machine_half_of_what_is_beyond_their_budget_and_a_part_of_each_core -> workers_leave_spare_memory_and_part_of_each_core
= zygotes_are_told_with_what_they_hold_and_one_of_a_tier_that_nobody_asks_for_any_more_goes -> zygotes_report_memory_and_unused_tiers_end
# Each line replaces words of a test's name, written as `_name_`, in this order.
_(is|are)_told_apart_from_ -> _\1_distinguished_from_
_(is|are)_told_apart_ -> _\1_distinguished_
_(is|are)_told_from_ -> _\1_distinguished_from_
_told_apart_ -> _distinguished_
_cannot_tell_apart_ -> _cannot_distinguish_
_(is|are)_told_to_end_ -> _\1_asked_to_stop_
_(is|are)_told_to_ -> _\1_reported_to_
_(is|are)_told_so_ -> _\1_informed_
_is_told_(?=(what|how|when|that|whether|why|where|who|which|its|all|nothing|of)_) -> _learns_
_are_told_(?=(what|how|when|that|whether|why|where|who|which|their|its|all|nothing|of)_) -> _learn_
_(is|are|be)_told_of_ -> _\1_informed_of_
_(is|are|be|was|were)_told_ -> _\1_reported_
_told_of_ -> _reported_
_told_ -> _reported_
_tells_(?=(what|how|when|that|whether|why|where|who|which)_) -> _shows_
_tells_of_ -> _reports_
_tells_ -> _reports_
_tell_(?=(what|how|when|that|whether|why|where|who|which)_) -> _show_
_tell_of_ -> _report_
_tell_ -> _report_
_says_so_ -> _reports_it_
_(is|are|be)_let_go_of_ -> _\1_released_
_(is|are|be)_let_go_ -> _\1_released_
_lets_go_of_ -> _releases_
_lets_go_ -> _releases_
_let_go_of_ -> _released_
_let_go_ -> _released_
_made_anew_ -> _rebuilt_
_sent_anew_ -> _resent_
_anew_ -> _again_
_of_late_ -> _recently_
_goes_on_(?=where_) -> _resumes_
_goes_on_ -> _continues_
_go_on_ -> _continue_
_went_on_ -> _continued_
_on_its_way_ -> _in_flight_
_under_way_ -> _in_flight_
_can_mend_ -> _can_fix_
_mend_ -> _fix_
_put_aside_ -> _set_aside_
_heeds_ -> _follows_
_heeded_ -> _followed_
_heed_ -> _follow_
_whoever_ -> _anyone_who_
_nobody_heard_of_ -> _nobody_saw_
_(is|are|was)_heard_of_ -> _\1_seen_
_hears_of_ -> _learns_of_
_hear_of_ -> _learn_of_
_be_had_ -> _be_fetched_
_gives_way_to_ -> _yields_to_
_for_ever_ -> _forever_
_beside_each_other_ -> _side_by_side_
_catalogues_ -> _catalogs_
_catalogue_ -> _catalog_
_cancelled_ -> _canceled_
_honoured_ -> _honored_
_colours_ -> _colors_
_neighbours_ -> _neighbors_
_neighbour_ -> _neighbor_
_licences_ -> _licenses_
_licence_ -> _license_
_authorisation_ -> _authorization_
_recognised_ -> _recognized_
"""

import os
import re
import subprocess
import sys

ROOTS = ["src", "sandbox", "xtask", "tests"]
SKIP = {"target", "node_modules", ".git", "vendor"}
KEYWORDS = set(
    "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub "
    "ref return self Self static struct super trait true type union unsafe use where while yield macro_rules".split()
)
# Methods that hand on what they are called on, as far as the type of an expression is guessed.
PASS = set(
    "clone as_ref as_mut as_deref as_deref_mut lock unwrap expect borrow borrow_mut iter iter_mut into_iter first last get get_mut read write load "
    "load_full ok unwrap_or_default unwrap_or unwrap_or_else unwrap_or_clone take cloned copied next values values_mut pop pop_front pop_back to_owned into_inner "
    "await map_err ok_or ok_or_else or or_else filter find rev skip peek try_lock poison chunks windows drain remove insert replace entry or_insert_with or_default "
    "or_insert enumerate zip min_by_key max_by_key context inspect upgrade as_slice collect flatten max min nth front back "
    "front_mut back_mut last_mut first_mut by_ref blocking_lock changed borrow_and_update recv join into_values".split()
)

TOKEN = re.compile(
    r'''(?P<ws>\s+)|(?P<com>//[^\n]*)|(?P<blk>/\*)|(?P<str>\b(?:br|cr|r)(?P<h>\#*)".*?"(?P=h)|(?:\b[bc])?"(?:\\.|[^"\\])*")'''
    r"""|(?P<chr>(?:\bb)?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')|(?P<life>'[A-Za-z_]\w*)"""
    r"""|(?P<num>\d[\w]*(?:\.\d[\w]*)?)|(?P<id>(?:r\#)?[A-Za-z_]\w*)|(?P<p>::|->|=>|\.\.=|\.\.\.|\.\.|==|!=|<=|>=|&&|\|\||.)""",
    re.S,
)


class File:
    """A source: its tokens without blanks and comments, and its comments."""

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8", newline="") as file:
            self.text = file.read()
        self.k, self.t, self.s = [], [], []
        self.comments, self.strings = [], []
        i, text = 0, self.text
        while i < len(text):
            m = TOKEN.match(text, i)
            kind = m.lastgroup if m.lastgroup != "h" else "str"
            if m.group("str") is not None:
                kind = "str"
            end = m.end()
            if kind == "blk":
                depth = 1
                while depth and end < len(text):
                    if text.startswith("/*", end):
                        depth, end = depth + 1, end + 2
                    elif text.startswith("*/", end):
                        depth, end = depth - 1, end + 2
                    else:
                        end += 1
                kind = "com"
            if kind == "com":
                self.comments.append((i, end))
            elif kind != "ws":
                if kind == "str":
                    self.strings.append(len(self.k))
                self.k.append(kind)
                self.t.append(text[i:end])
                self.s.append(i)
            i = end
        self.n = len(self.t)
        self.k += ["p"] * 4
        self.t += [""] * 4
        self.s += [len(text)] * 4
        self.match = [0] * (self.n + 4)
        self.open_of = [-1] * (self.n + 4)
        stack = []
        for i in range(self.n):
            c = self.t[i]
            self.open_of[i] = stack[-1] if stack else -1
            if self.k[i] == "p":
                if c in "([{" and len(c) == 1:
                    stack.append(i)
                elif c in ")]}" and len(c) == 1 and stack:
                    o = stack.pop()
                    self.match[o], self.match[i] = i, o
                    self.open_of[i] = stack[-1] if stack else -1
        self.edits = {}
        self.scopes = []  # (first token, last token, Scope), outer ones first
        self.impls = []  # (first token, last token, impl)
        self.fns = []  # (first token, last token)
        self.crate = None
        self.modules = []


class Def:
    def __init__(self, kind, name, file, token, parent=None):
        self.kind, self.name, self.file, self.token, self.parent = kind, name, file, token, parent
        self.new = None
        self.module = None  # of a `mod`
        self.members = {}  # name -> [Def], of types and traits
        self.types = []  # (scope, first token, last token) that its type mentions
        self.owner = None  # the type that a member is of
        self.root = None  # the trait's member that an implementation's is
        self.derefs = []
        self.uses = 0

    def __repr__(self):
        return f"{self.kind} {self.name} {self.file.path if self.file else ''}"


class Scope:
    def __init__(self, file, parent, block):
        self.file, self.parent, self.block = file, parent, block
        self.items = {}  # name -> [Def]
        self.uses = []  # (path, alias, is glob)
        self.module_parent = None
        self.crate_root = None
        self.crate = None
        self.busy = set()
        self.cache = {}

    def module(self):
        scope = self
        while scope.block:
            scope = scope.parent
        return scope


class Impl:
    def __init__(self, scope, file, first, last):
        self.scope, self.file, self.first, self.last = scope, file, first, last
        self.self_range = None
        self.trait_path = None
        self.defs = []
        self.self_type = None


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = {}
        self.crates = {}  # name in code -> root Scope
        self.impls = []
        self.by_member = {}  # name -> [Def]
        self.defs = []
        self.warnings = []
        for top in ROOTS:
            for folder, folders, names in os.walk(top):
                folders[:] = sorted(f for f in folders if f not in SKIP)
                for name in sorted(names):
                    if name.endswith(".rs"):
                        path = os.path.join(folder, name)
                        self.files[path] = File(path)
        self.load_crates()
        for impl in self.impls:
            self.bind_impl(impl)
        for impl in self.impls:
            self.bind_trait(impl)

    # --- the tree of modules -----------------------------------------------------------------------------------

    def load_crates(self):
        manifests = []
        for top in [".", *ROOTS]:
            for folder, folders, names in os.walk(top):
                if top == ".":
                    folders[:] = []
                folders[:] = sorted(f for f in folders if f not in SKIP)
                if "Cargo.toml" in names:
                    manifests.append(os.path.normpath(folder))
        roots = []
        for folder in sorted(set(manifests)):
            manifest = open(os.path.join(folder, "Cargo.toml"), encoding="utf-8").read()
            named = re.search(r'^\[package\].*?^name = "([^"]+)"', manifest, re.S | re.M)
            if not named:
                continue
            name = named[1].replace("-", "_")
            here = lambda path: os.path.normpath(os.path.join(folder, path))
            lib = here("lib.rs") if here("lib.rs") in self.files else here("src/lib.rs")
            if lib in self.files:
                roots.append((name, lib))
            if here("src/main.rs") in self.files:
                roots.append((name + "#main", here("src/main.rs")))
            for path in sorted(self.files):
                if os.path.dirname(path) == here("src/bin"):
                    roots.append((name + "#" + path, path))
                if "autotests = false" in manifest:
                    if f'path = "{os.path.relpath(path, folder)}"' in manifest.split("[dependencies]")[0] + "".join(re.findall(r"\[\[test\]\][^\[]*", manifest)) and path != lib:
                        roots.append((name + "#" + path, path))
                elif os.path.dirname(path) == here("tests") or re.fullmatch(re.escape(here("tests")) + r"/\w+/main\.rs", path):
                    roots.append((name + "#" + path, path))
                if os.path.dirname(path) == here("benches") or path == here("build.rs") and folder not in ("src/catalog",):
                    roots.append((name + "#" + path, path))
        for name, path in roots:
            scope = Scope(self.files[path], None, False)
            scope.crate_root, scope.crate = scope, name
            self.crates[name] = scope
            folder = os.path.dirname(path)
            self.load_module(scope, self.files[path], 0, self.files[path].n, folder)
        for path, file in self.files.items():
            if not file.modules:
                self.warnings.append(f"{path}: no module names it")

    def load_module(self, scope, file, first, last, folder):
        file.modules.append(scope)
        file.scopes.append((first, last, scope))
        if file.crate is None:
            file.crate = scope.crate
        self.items(scope, file, first, last, folder)

    def child(self, scope, file):
        child = Scope(file, None, False)
        child.module_parent, child.crate_root, child.crate = scope.module(), scope.crate_root, scope.crate
        return child

    def add(self, scope, d):
        scope.items.setdefault(d.name, []).append(d)
        self.defs.append(d)
        return d

    def skip_generics(self, f, i):
        """From a `<` to behind its `>`."""
        if f.t[i] != "<":
            return i
        depth = 0
        while i < f.n:
            c = f.t[i]
            if c == "<":
                depth += 1
            elif c == ">":
                depth -= 1
                if depth == 0:
                    return i + 1
            elif c == ">=" and depth == 1:
                return i + 1
            elif c in "([{" and f.k[i] == "p":
                i = f.match[i]
            i += 1
        return i

    def items(self, scope, f, i, last, folder):
        attrs = []
        while i < last:
            c = f.t[i]
            if c == "#" and f.t[i + 1] == "[":
                attrs.append((i + 1, f.match[i + 1]))
                i = f.match[i + 1] + 1
                continue
            if c == "#" and f.t[i + 1] == "!" and f.t[i + 2] == "[":
                i = f.match[i + 2] + 1
                continue
            if c == "pub":
                i += 1
                if f.t[i] == "(":
                    i = f.match[i] + 1
                continue
            if c in ("async", "unsafe", "default") or (c == "const" and f.t[i + 1] in ("fn", "unsafe", "async")):
                i += 1
                continue
            if c == "extern":
                i += 1
                if f.k[i] == "str":
                    i += 1
                if f.t[i] == "{":
                    i = f.match[i] + 1
                continue
            i = self.item(scope, f, i, last, folder, attrs)
            attrs = []

    def item(self, scope, f, i, last, folder, attrs):
        c, name = f.t[i], f.t[i + 1]
        if c == "mod" and f.k[i + 1] == "id":
            d = self.add(scope, Def("mod", name, f, i + 1, scope))
            if f.t[i + 2] == "{":
                child = self.child(scope, f)
                d.module = child
                end = f.match[i + 2]
                self.load_module(child, f, i + 3, end, os.path.join(folder, name) if folder else None)
                return end + 1
            path = None
            for a, b in attrs:
                if f.t[a + 1] == "path":
                    path = os.path.normpath(os.path.join(os.path.dirname(f.path), f.t[a + 3].strip('"')))
            candidates = [path] if path else [os.path.join(folder, name + ".rs"), os.path.join(folder, name, "mod.rs")]
            for candidate in candidates:
                candidate = os.path.normpath(candidate)
                if candidate in self.files:
                    file = self.files[candidate]
                    child = self.child(scope, file)
                    d.module = child
                    inner = os.path.dirname(candidate) if candidate.endswith("/mod.rs") else candidate[:-3]
                    if path and attrs:
                        inner = candidate[:-3]
                    self.load_module(child, file, 0, file.n, inner)
                    break
            return i + 3
        if c == "use":
            end = i + 1
            while f.t[end] != ";":
                end = f.match[end] + 1 if f.t[end] == "{" else end + 1
            j = i + 1
            if f.t[j] == "::":
                j += 1
            self.use_tree(scope, f, j, end, [])
            return end + 1
        if c in ("struct", "union", "enum", "trait", "type", "fn", "const", "static") and (f.k[i + 1] == "id" or name in ("mut",)):
            at = i + 2 if name == "mut" else i + 1
            d = self.add(scope, Def(c, f.t[at], f, at, scope))
            return self.finish(scope, d, f, at + 1, last, None)
        if c == "impl":
            return self.impl(scope, f, i, last)
        if c == "macro_rules" and name == "!":
            self.add(scope, Def("macro", f.t[i + 2], f, i + 2, scope))
            return f.match[i + 3] + 1
        if f.k[i] == "id" and name == "!":
            j = i + 2
            self.macro_items(scope, f, j)
            end = f.match[j]
            return end + 2 if f.t[end + 1] == ";" else end + 1
        if c in "([{" and f.k[i] == "p" and c:
            return f.match[i] + 1
        return i + 1

    def macro_items(self, scope, f, open_):
        """Items in the input of a macro, as far as they look like items."""
        i, end = open_ + 1, f.match[open_]
        while i < end:
            c = f.t[i]
            if c in ("struct", "enum", "fn", "type", "static", "const", "trait") and f.k[i + 1] == "id" and f.t[i + 1] not in KEYWORDS:
                d = self.add(scope, Def(c, f.t[i + 1], f, i + 1, scope))
                if c in ("struct", "enum"):
                    i = self.finish(scope, d, f, i + 2, end, None)
                    continue
            i += 1

    def use_tree(self, scope, f, i, end, prefix):
        path = list(prefix)
        while i < end:
            c = f.t[i]
            if f.k[i] == "id" and c != "as":
                path.append((c, f, i))
                i += 1
            elif c == "::":
                i += 1
            elif c == "*":
                scope.uses.append((path, None, True))
                return
            elif c == "{":
                close = f.match[i]
                j = k = i + 1
                while k <= close:
                    if k == close or f.t[k] == ",":
                        if k > j:
                            self.use_tree(scope, f, j, k, path)
                        j = k + 1
                    k = f.match[k] + 1 if f.t[k] == "{" else k + 1
                return
            elif c == "as":
                scope.uses.append((path, f.t[i + 1], False))
                return
            else:
                i += 1
        if path:
            if path[-1][0] == "self" and len(path) > 1:
                scope.uses.append((path[:-1], None, False))
            else:
                scope.uses.append((path, None, False))

    def finish(self, scope, d, f, i, last, impl):
        """What follows the name of an item, to behind its end."""
        start = i
        i = self.skip_generics(f, i)
        if d.kind in ("struct", "union"):
            while i < last and f.t[i] not in ("{", "(", ";"):
                i += 1
            if f.t[i] == "(":
                d.types.append((scope, i, f.match[i]))
                i = f.match[i]
                while f.t[i] != ";" and i < last:
                    i += 1
                return i + 1
            if f.t[i] == ";":
                return i + 1
            self.fields(scope, d, f, i)
            return f.match[i] + 1
        if d.kind == "enum":
            while i < last and f.t[i] != "{":
                i += 1
            close = f.match[i]
            j = i + 1
            while j < close:
                if f.t[j] == "#" and f.t[j + 1] == "[":
                    j = f.match[j + 1] + 1
                    continue
                if f.k[j] == "id":
                    v = Def("variant", f.t[j], f, j, scope)
                    v.owner = d
                    self.member(d, v)
                    j += 1
                    if f.t[j] == "(":
                        v.types.append((scope, j, f.match[j]))
                        j = f.match[j] + 1
                    elif f.t[j] == "{":
                        self.fields(scope, v, f, j)
                        j = f.match[j] + 1
                    while j < close and f.t[j] != ",":
                        j = f.match[j] + 1 if f.t[j] in ("(", "{", "[") else j + 1
                j += 1
            return close + 1
        if d.kind == "trait":
            while i < last and f.t[i] != "{":
                i += 1
            close = f.match[i]
            self.assoc(scope, d, f, i + 1, close, None)
            f.impls.append((i, close, d))
            return close + 1
        if d.kind == "fn":
            head = i
            arrow = None
            while i < last and f.t[i] not in ("{", ";"):
                if f.t[i] == "->" and arrow is None:
                    arrow = i
                i = f.match[i] + 1 if f.t[i] in ("(", "[") else i + 1
            if arrow is not None:
                d.types.append((scope, arrow, i))
            d.params = head
            if f.t[i] == "{":
                close = f.match[i]
                f.fns.append((d.token, close))
                block = Scope(f, scope, True)
                block.crate_root, block.crate = scope.crate_root, scope.crate
                f.scopes.append((i, close, block))
                self.block_items(block, f, i + 1, close)
                return close + 1
            return i + 1
        # type, const, static
        while i < last and f.t[i] != ";":
            if d.kind in ("const", "static") and f.t[i] == "=":
                if not d.types:
                    d.types.append((scope, start, i))
            if f.t[i] == "{":
                block = Scope(f, scope, True)
                block.crate_root, block.crate = scope.crate_root, scope.crate
                f.scopes.append((i, f.match[i], block))
                self.block_items(block, f, i + 1, f.match[i])
            i = f.match[i] + 1 if f.t[i] in ("(", "[", "{") else i + 1
        if not d.types:
            d.types.append((scope, start, i))
        return i + 1

    def block_items(self, block, f, i, end):
        while i < end:
            c = f.t[i]
            prev = f.t[i - 1]
            if c == "use" and prev in ("{", "}", ";", "]"):
                i = self.item(block, f, i, end, None, [])
                continue
            if c in ("struct", "enum", "trait", "fn", "const", "static", "type", "impl", "mod") and prev in ("{", "}", ";", "]", "async", "unsafe", ")"):
                if (f.k[i + 1] == "id" and f.t[i + 1] not in ("fn", "move")) or c == "impl":
                    i = self.item(block, f, i, end, None, [])
                    continue
            if c == "macro_rules":
                i = self.item(block, f, i, end, None, [])
                continue
            i += 1

    def fields(self, scope, d, f, open_):
        j, close = open_ + 1, f.match[open_]
        while j < close:
            if f.t[j] == "#" and f.t[j + 1] == "[":
                j = f.match[j + 1] + 1
                continue
            if f.t[j] == "pub":
                j += 1
                if f.t[j] == "(":
                    j = f.match[j] + 1
                continue
            if f.k[j] == "id" and f.t[j + 1] == ":":
                m = Def("field", f.t[j], f, j, scope)
                m.owner = d
                self.member(d, m)
                k = j + 2
                depth = 0
                while k < close:
                    if f.t[k] == "<":
                        depth += 1
                    elif f.t[k] == ">":
                        depth -= 1
                    elif f.t[k] == "," and depth <= 0:
                        break
                    k = f.match[k] + 1 if f.t[k] in ("(", "[", "{") else k + 1
                m.types.append((scope, j + 2, k))
                j = k + 1
                continue
            j += 1

    def member(self, d, m):
        d.members.setdefault(m.name, []).append(m)
        self.by_member.setdefault(m.name, []).append(m)
        self.defs.append(m)

    def assoc(self, scope, owner, f, i, close, impl):
        while i < close:
            c = f.t[i]
            if c == "#" and f.t[i + 1] == "[":
                i = f.match[i + 1] + 1
                continue
            if c == "pub":
                i += 1
                if f.t[i] == "(":
                    i = f.match[i] + 1
                continue
            if c in ("async", "unsafe", "default") or (c == "const" and f.t[i + 1] in ("fn", "unsafe", "async")):
                i += 1
                continue
            if c in ("fn", "const", "type") and f.k[i + 1] == "id":
                kind = {"fn": "method", "const": "aconst", "type": "atype"}[c]
                m = Def(kind, f.t[i + 1], f, i + 1, scope)
                if impl is None:
                    m.owner = owner
                    self.member(owner, m)
                else:
                    impl.defs.append(m)
                k = m.kind
                m.kind = c
                i = self.finish(scope, m, f, i + 2, close, impl)
                m.kind = k
                continue
            if f.k[i] == "p" and c in ("(", "[", "{"):
                i = f.match[i] + 1
                continue
            i += 1

    def impl(self, scope, f, i, last):
        j = self.skip_generics(f, i + 1)
        start, for_, where = j, None, None
        while j < last and f.t[j] != "{":
            if f.t[j] == "for" and where is None and f.t[j + 1] != "<":
                for_ = j
            if f.t[j] == "where" and where is None:
                where = j
            if f.t[j] == "<":
                j = self.skip_generics(f, j)
                continue
            j = f.match[j] + 1 if f.t[j] in ("(", "[") else j + 1
        close = f.match[j]
        impl = Impl(scope, f, i, close)
        end = where or j
        if for_:
            impl.trait_path = (start, for_)
            impl.self_range = (for_ + 1, end)
        else:
            impl.self_range = (start, end)
        self.impls.append(impl)
        f.impls.append((i, close, impl))
        self.assoc(scope, None, f, j + 1, close, impl)
        return close + 1

    def bind_impl(self, impl):
        impl.self_type = None
        a, b = impl.self_range
        chain = self.first_path(impl.file, a, b)
        if chain:
            d = self.resolve(impl.scope, [impl.file.t[x] for x in chain], "type")
            impl.self_type = d
        for m in impl.defs:
            m.owner = impl.self_type
            if impl.trait_path is None:
                if impl.self_type:
                    self.member(impl.self_type, m)
                else:
                    self.by_member.setdefault(m.name, []).append(m)
                    self.defs.append(m)

    def bind_trait(self, impl):
        if impl.trait_path is None:
            return
        f = impl.file
        chain = self.first_path(f, *impl.trait_path)
        d = self.resolve(impl.scope, [f.t[x] for x in chain], "type") if chain else None
        for m in impl.defs:
            self.defs.append(m)
            if d and d.kind == "trait":
                roots = d.members.get(m.name)
                if roots:
                    m.root = roots[0]
                    if impl.self_type:
                        impl.self_type.members.setdefault(m.name, []).append(roots[0])
            else:
                m.kind = "foreign"
                if m.name == "Target" and impl.self_type and f.t[chain[-1]] == "Deref":
                    impl.self_type.derefs += m.types
                if impl.self_type:
                    impl.self_type.members.setdefault(m.name, []).append(m)

    def first_path(self, f, a, b):
        i = a
        while i < b:
            if f.k[i] == "id" and f.t[i] not in ("dyn", "mut", "const", "for", "impl"):
                chain = [i]
                while f.t[i + 1] == "::" and f.k[i + 2] == "id":
                    i += 2
                    chain.append(i)
                # What is within a Box or an Arc is not what it is; but for `&`, which is no name.
                return chain
            i += 1
        return None

    # --- names ---------------------------------------------------------------------------------------------------

    def lookup(self, scope, name, ns, seen=None):
        """Definitions of a name that is written in a scope."""
        seen = set() if seen is None else seen
        found = self.lookup_in(scope, name, ns, seen)
        if found:
            return found
        if scope.block and scope.parent:
            return self.lookup(scope.parent, name, ns, seen)
        if name in self.crates and ns != "value":
            d = Def("mod", name, None, None)
            d.module = self.crates[name]
            return [d]
        return []

    def fits(self, d, ns):
        if ns == "type":
            return d.kind in ("mod", "struct", "enum", "trait", "type", "union", "atype")
        return True

    def lookup_in(self, scope, name, ns, seen):
        key = (id(scope), name, ns)
        if key in seen:
            return []
        cached = scope.cache.get((name, ns))
        if cached is not None:
            return cached
        seen.add(key)
        found = [d for d in scope.items.get(name, []) if self.fits(d, ns)]
        if not found or ns == "any" and all(d.kind == "mod" for d in found):
            # A module and a function can have one name.
            for path, alias, glob in scope.uses:
                if not glob and (alias or path[-1][0]) == name:
                    # A `use` that names itself first is of another crate or module.
                    found += [d for d in self.resolve_all(scope, [p[0] for p in path], ns, seen) if self.fits(d, ns)]
        if not found:
            for path, alias, glob in scope.uses:
                if glob:
                    for target in self.resolve_all(scope, [p[0] for p in path], "type", seen):
                        if target.kind == "mod" and target.module:
                            found += self.lookup_in(target.module, name, ns, seen)
                        elif target.kind == "enum":
                            found += [m for m in target.members.get(name, []) if m.kind == "variant"]
                if found:
                    break
        seen.discard(key)
        if len(seen) == 0:
            scope.cache[(name, ns)] = found
        return found

    def resolve(self, scope, segs, ns, self_type=None):
        found = self.resolve_all(scope, segs, ns, None, self_type)
        return found[0] if found else None

    def resolve_all(self, scope, segs, ns, seen=None, self_type=None):
        cur = None
        for n, seg in enumerate(segs):
            end = n == len(segs) - 1
            want = ns if end else "type"
            if seg.startswith("r#"):
                seg = seg[2:]
            if n == 0:
                if seg == "crate" or seg == "$crate":
                    cur = [self.of_module(scope.module().crate_root)]
                elif seg == "self":
                    cur = [self.of_module(scope.module())]
                elif seg == "super":
                    up = scope.module().module_parent
                    cur = [self.of_module(up)] if up else []
                elif seg == "Self":
                    cur = [self_type] if self_type else []
                else:
                    cur = self.lookup(scope, seg, want, seen)
            else:
                nexts = []
                for d in cur:
                    if seg == "super" and d.module:
                        if d.module.module_parent:
                            nexts.append(self.of_module(d.module.module_parent))
                    elif d.kind == "mod":
                        if d.module:
                            nexts += self.lookup_in(d.module, seg, want, set() if seen is None else seen)
                    else:
                        nexts += self.members(d, seg)
                cur = nexts
            if not cur:
                return []
        return cur

    def of_module(self, scope):
        d = Def("mod", "", None, None)
        d.module = scope
        return d

    def members(self, d, name, depth=0):
        found = d.members.get(name)
        if found:
            return found
        if depth < 3:
            if d.kind == "type":
                for t in self.mentions(d)[:1]:
                    if t is not d:
                        return self.members(t, name, depth + 1)
            for scope, a, b in d.derefs:
                for t in self.mentioned(d.file if False else None, scope, a, b):
                    found = self.members(t, name, depth + 1)
                    if found:
                        return found
        return []

    def mentions(self, d, self_type=None):
        out = []
        for scope, a, b in d.types:
            out += self.mentioned(d.file, scope, a, b, self_type or d.owner)
        return out

    def mentioned(self, f, scope, a, b, self_type=None):
        """Types that a piece of source names."""
        f = f or scope.file
        out, i = [], a
        while i < b:
            if f.k[i] == "id" and f.t[i] not in KEYWORDS - {"Self", "crate", "self", "super"} and f.t[i - 1] != "::":
                chain = [f.t[i]]
                while f.t[i + 1] == "::" and f.k[i + 2] == "id":
                    i += 2
                    chain.append(f.t[i])
                for d in self.resolve_all(scope, chain, "type", None, self_type)[:1]:
                    if d and d.kind in ("struct", "enum", "trait", "type", "union") and d not in out:
                        out.append(d)
            i += 1
        return out


class Renamer:
    def __init__(self, tree):
        self.tree = tree
        self.unsure = []
        self.locals = {}  # file -> {old: new}
        self.words = {}
        self.everywhere = {}  # names of one meaning, token by token
        self.chosen, self.taken, self.bares, self.of_fn = {}, {}, {}, {}

    # --- where a token is ------------------------------------------------------------------------------------------

    def prepare(self, f):
        """For each token the innermost scope, impl and function."""
        n = f.n
        f.scope_at = [None] * (n + 1)
        for a, b, scope in sorted(f.scopes, key=lambda x: (x[0], -x[1])):
            for i in range(a, min(b + 1, n)):
                f.scope_at[i] = scope
        f.impl_at = [None] * (n + 1)
        for a, b, impl in sorted(f.impls, key=lambda x: (x[0], -x[1])):
            for i in range(a, min(b + 1, n)):
                f.impl_at[i] = impl
        f.fn_at = [None] * (n + 1)
        f.outer_fn = [None] * (n + 1)
        f.in_macro_rules = [False] * (n + 1)
        for a, b in sorted(f.fns, key=lambda x: (x[0], -x[1])):
            for i in range(a, min(b + 1, n)):
                f.fn_at[i] = (a, b)
                if f.outer_fn[i] is None:
                    f.outer_fn[i] = (a, b)

    def self_type(self, f, i):
        impl = f.impl_at[i] if i <= f.n else None
        if isinstance(impl, Impl):
            return impl.self_type
        return impl

    # --- what an expression is ----------------------------------------------------------------------------------------

    def infer(self, f, i, depth=0):
        """Types of the expression that ends with token `i`."""
        if depth > 12 or i < 0:
            return []
        c, k = f.t[i], f.k[i]
        if c == "?":
            return self.infer(f, i - 1, depth + 1)
        if c == "await" and f.t[i - 1] == ".":
            return self.infer(f, i - 2, depth + 1)
        if c == "]":
            o = f.match[i]
            if f.k[o - 1] == "id" or f.t[o - 1] in (")", "]", "?"):
                return self.infer(f, o - 1, depth + 1)
            return []
        if c == ")":
            o = f.match[i]
            h = o - 1
            if f.t[h] == ">":  # a turbofish
                d = 0
                while h > 0:
                    if f.t[h] == ">":
                        d += 1
                    elif f.t[h] == "<":
                        d -= 1
                        if d == 0:
                            break
                    h -= 1
                h -= 2
            if f.k[h] != "id" or f.t[h] in KEYWORDS - {"self", "Self", "await", "union"}:
                if f.t[h] == "!":
                    return []
                return self.infer(f, i - 1, depth + 1) if i - 1 > o else []
            if f.t[h - 1] == ".":
                receiver = self.infer(f, h - 2, depth + 1)
                m = self.pick(receiver, f.t[h], ("method", "foreign"))
                if m:
                    types = self.tree.mentions(m, self.owner_type(receiver, m))
                    return types or ([] if m.types else [])
                if f.t[h] in PASS:
                    return receiver
                if not receiver:
                    only = [d for d in self.tree.by_member.get(f.t[h], []) if d.kind == "method"]
                    if len(only) == 1 and f.t[h] not in PASS:
                        return self.tree.mentions(only[0])
                return []
            ds = self.path_ending(f, h)
            out = []
            if not ds and f.t[h - 1] == "::" and f.k[h - 2] == "id":
                return [d for d in self.path_ending(f, h - 2)[:1] if d.kind in ("struct", "enum", "type")]
            for d in ds[:1]:
                if d.kind in ("fn", "method", "foreign"):
                    out += self.tree.mentions(d)
                elif d.kind == "variant":
                    out.append(d.owner)
                elif d.kind in ("struct", "enum"):
                    out.append(d)
            return out
        if c == "}":
            o = f.match[i]
            h = o - 1
            if f.k[h] == "id" and f.t[h] not in KEYWORDS - {"Self"}:
                ds = self.path_ending(f, h)
                return [d.owner if d.kind == "variant" else d for d in ds[:1] if d.kind in ("struct", "enum", "variant", "type")]
            return []
        if k == "id":
            if f.t[i - 1] == ".":
                receiver = self.infer(f, i - 2, depth + 1)
                m = self.pick(receiver, c, ("field",))
                if m:
                    return self.tree.mentions(m)
                if not receiver:
                    only = [d for d in self.tree.by_member.get(c, []) if d.kind == "field"]
                    if len(only) == 1:
                        return self.tree.mentions(only[0])
                return []
            if c == "self":
                t = self.self_type(f, i)
                return [t] if t else []
            if f.t[i - 1] == "::":
                return self.value_types(self.path_ending(f, i))
            found = self.local_types(f, i, c, depth)
            if found is not None:
                return found
            return self.value_types(self.path_ending(f, i))
        return []

    def value_types(self, ds):
        out = []
        for d in ds[:1]:
            if d.kind in ("const", "static", "aconst"):
                out += self.tree.mentions(d)
            elif d.kind == "variant":
                out.append(d.owner)
            elif d.kind in ("struct",):
                out.append(d)
        return out

    def owner_type(self, receiver, m):
        return m.owner or (receiver[0] if receiver else None)

    def pick(self, types, name, kinds):
        for t in types:
            for m in self.tree.members(t, name):
                if m.kind in kinds or (m.root and m.root.kind in kinds):
                    return m
        return None

    def path_ending(self, f, h):
        """Definitions that the path whose last segment is token `h` names."""
        chain = [f.t[h]]
        j = h
        while f.t[j - 1] == "::":
            j -= 2
            if f.t[j] == ">":
                d = 0
                while j > 0:
                    if f.t[j] == ">":
                        d += 1
                    elif f.t[j] == "<":
                        d -= 1
                        if d == 0:
                            break
                    j -= 1
                j -= 1
                if f.t[j] == "::":
                    j -= 1
            if f.k[j] != "id":
                return []
            chain.insert(0, f.t[j])
        return self.tree.resolve_all(f.scope_at[h], chain, "any", None, self.self_type(f, h))

    def local_types(self, f, i, name, depth):
        """Types of a local, by the place that binds it; None where nothing does."""
        fn = f.fn_at[i]
        if fn is None:
            return None
        j = i - 1
        while j > fn[0]:
            if f.k[j] == "id" and f.t[j] == name and f.t[j - 1] not in (".", "::") and f.t[j + 1] not in ("(", "::", ".", "!"):
                prev, nxt = f.t[j - 1], f.t[j + 1]
                # a parameter, or a `let` with its type
                if nxt == ":" and (prev in ("(", ",", "mut", "let", "|", "ref")):
                    o = f.open_of[j]
                    if f.t[o] != "{" or prev in ("let", "mut"):
                        e = j + 2
                        ang = 0
                        while e < f.n:
                            if f.t[e] == "<":
                                ang += 1
                            elif f.t[e] == ">":
                                ang -= 1
                            elif ang <= 0 and f.t[e] in (",", ")", "=", "|", ";"):
                                break
                            e = f.match[e] + 1 if f.t[e] in ("(", "[", "{") else e + 1
                        return self.tree.mentioned(f, f.scope_at[j], j + 2, e, self.self_type(f, j))
                # let name = expr;
                if prev in ("let", "mut") and nxt == "=":
                    e = j + 2
                    while e < f.n and f.t[e] not in (";", "{"):
                        if f.t[e] == "else":
                            break
                        e = f.match[e] + 1 if f.t[e] in ("(", "[") else e + 1
                    if f.t[e] == "{" and f.k[e - 1] == "id":
                        e = f.match[e] + 1
                    return self.infer(f, e - 1, depth + 1)
                if prev == "for" or (prev in ("(", ",", "&") and nxt in (")", ",", "|")) or (prev in ("|", "&") and nxt in ("|", ",")) or (
                    prev == "mut" and nxt in (")", ",")):
                    got = self.pattern_types(f, j, depth)
                    if got is not None:
                        return got
                if nxt in (",", "}") and f.t[f.open_of[j]] == "{":
                    got = self.pattern_types(f, j, depth)
                    if got is not None:
                        return got
            j -= 1
        return None

    def pattern_types(self, f, j, depth):
        if f.t[j - 1] == "for":
            e = j + 1
            if f.t[e] != "in":
                return None
            e += 1
            while e < f.n and f.t[e] != "{":
                e = f.match[e] + 1 if f.t[e] in ("(", "[") else e + 1
            return self.infer(f, e - 1, depth + 1)
        o = f.open_of[j]
        h = o - 1
        if f.t[o] in ("(", "{") and f.k[h] == "id" and f.t[f.match[o] + 1] == ":" and f.t[h][0].isupper():
            e = f.match[o] + 2
            ang = 0
            while e < f.n:
                if f.t[e] == "<":
                    ang += 1
                elif f.t[e] == ">":
                    ang -= 1
                elif ang <= 0 and f.t[e] in (",", ")", "=", "|", ";"):
                    break
                e = f.match[e] + 1 if f.t[e] in ("(", "[", "{") else e + 1
            if f.t[o] == "(":
                return self.tree.mentioned(f, f.scope_at[j], f.match[o] + 2, e, self.self_type(f, j))
        if f.t[o] == "(" and f.k[h] == "id" and f.t[h][0].isupper():
            if f.t[h] in ("Some", "Ok", "Err", "Ready", "Continue", "Break"):
                # `if let Some(name) = expr`, `let Some(name) = expr else`
                e = f.match[o] + 1
                if f.t[e] == "=" and f.t[h - 1] in ("let", "(") or f.t[e] == "=":
                    s = e + 1
                    e = s
                    while e < f.n and f.t[e] not in ("{", ";", "else", "&&"):
                        e = f.match[e] + 1 if f.t[e] in ("(", "[") else e + 1
                    return self.infer(f, e - 1, depth + 1)
                if f.t[e] in ("=>", "if", "|"):
                    # an arm of a match
                    m = f.open_of[h]
                    if f.t[m] == "{":
                        return self.infer(f, m - 1, depth + 1)
                return None
            ds = self.path_ending(f, h)
            for d in ds[:1]:
                return self.tree.mentions(d)
            return None
        if f.t[o] == "{" and f.k[h] == "id" and f.t[h][0].isupper():
            for d in self.path_ending(f, h)[:1]:
                m = d.members.get(f.t[j]) if d.members else None
                if m:
                    return self.tree.mentions(m[0])
            return None
        # a closure's parameter: of what the method is called on
        if f.t[j - 1] == "|" or f.t[j - 1] in ("&", ","):
            k = j - 1
            while k > 0 and f.t[k] in ("&", "mut", "(", ",") or f.k[k] == "id" and f.t[k] != "move":
                k -= 1
            if f.t[k] == "|":
                k -= 1
                if f.t[k] == "move":
                    k -= 1
                if f.t[k] == "async":
                    k -= 1
                if f.t[k] in ("(", ",") :
                    o = f.open_of[k] if f.t[k] == "," else k
                    if f.t[o] == "(" and f.k[o - 1] == "id" and f.t[o - 2] == ".":
                        return self.infer(f, o - 3, depth + 1)
        return None

    # --- edits -------------------------------------------------------------------------------------------------------

    def edit(self, f, i, new):
        text = f.t[i]
        if text.startswith("r#"):
            text = text[2:]
        if new == text:
            return
        f.edits[f.s[i]] = (f.s[i] + len(f.t[i]), new)

    def new_of(self, d, written=None):
        d = d.root or d
        if written is not None and written != d.name:
            return None  # by another name, which a `use` has given it
        if d.new:
            d.uses += 1
        return d.new

    def choose(self, ds, f, i):
        """Of definitions with one name, the one that is meant by how it is used."""
        if len(ds) < 2:
            return ds[0] if ds else None
        nxt = f.t[i + 1]
        if nxt == "::":
            pick = [d for d in ds if d.kind in ("mod", "struct", "enum", "trait", "type", "variant")]
        elif nxt == "(":
            pick = [d for d in ds if d.kind in ("fn", "method", "struct", "variant")]
        elif nxt in (")", ",", "?", ";"):
            pick = [d for d in ds if d.kind != "mod"]
        elif nxt == "!":
            pick = [d for d in ds if d.kind == "macro"]
        else:
            pick = []
        return (pick or ds)[0]

    def rename_file(self, f):
        tree = self.tree
                # 1. definitions
        for d in f.defs_here:
            new = self.new_of(d)
            if new:
                self.edit(f, d.token, new)
                if d.kind == "mod":
                    self.path_attribute(f, d, new)
        # 2. uses
        for scope in f.modules + [s for _, _, s in f.scopes if s.block]:
            for path, alias, glob in scope.uses:
                for n, (seg, file, i) in enumerate(path):
                    if file is not f:
                        continue
                    ds = tree.resolve_all(scope, [p[0] for p in path[: n + 1]], "type" if n < len(path) - 1 or glob else "any")
                    ds = [d for d in ds if (d.root or d).name == seg or not d.name]
                    news = {d.new for d in ds if (d.root or d).new} if ds else set()
                    if len(news) == 1 and len([d for d in ds if d.new]) == len({(d.kind, d.file, d.token) for d in ds}):
                        self.edit(f, i, news.pop())
                    elif news:
                        # A name of several: the one that the file uses.
                        self.edit(f, i, sorted(news)[0])
                        self.unsure.append(f"{self.at(f, i)}: `use` of {seg} has several meanings")
                f.use_tokens.update(i for _, file, i in path if file is f)
        # 3. everything else
        i = 0
        while i < f.n:
            if f.t[i] in self.everywhere and f.k[i] == "id" and f.s[i] not in f.edits:
                self.edit(f, i, self.everywhere[f.t[i]])
                i += 1
                continue
            if f.k[i] != "id" or i in f.use_tokens or i in f.def_tokens:
                i += 1
                continue
            t = f.t[i]
            prev = f.t[i - 1] if i else ""
            if prev == ".":
                if t in self.members_renamed and f.t[i - 2] != "..":
                    self.member_access(f, i)
                i += 1
                continue
            if prev == "::":
                if t in self.interesting and not f.t[i - 2].replace("_", "a").isalnum():
                    # `<T as X>::name`
                    self.by_name(f, i, t, [d for d in tree.by_member.get(t, [])])
                elif t in self.interesting:
                    self.path_segment(f, i)
                i += 1
                continue
            if t in self.interesting or t in self.local_words:
                self.single(f, i)
            i += 1
        # 4. inline arguments of format strings
        for i in f.strings:
            text = f.t[i]
            if "{" in text and f.outer_fn[i] is not None:
                names = self.of_fn.get((f.path, f.outer_fn[i]), {})
                out = re.sub(r"(?<!\{)\{(\w+)(?=[:}])", lambda m: "{" + names.get(m[1], m[1]), text)
                if out != text:
                    self.edit(f, i, out)

    def path_attribute(self, f, d, new):
        j = d.token - 2
        while f.t[j] in ("pub", ")"):
            j = f.match[j] - 1 if f.t[j] == ")" else j - 1
        if f.t[j] == "]" and f.t[f.match[j] + 1] == "path":
            i = f.match[j] + 3
            folder, _ = os.path.split(f.t[i].strip('"'))
            self.edit(f, i, '"' + (folder + "/" if folder else "") + new + '.rs"')

    def at(self, f, i):
        return f"{f.path}:{f.text.count(chr(10), 0, f.s[i]) + 1}"

    def path_segment(self, f, i):
        ds = self.path_ending(f, i)
        if ds:
            d = self.choose(ds, f, i)
            new = self.new_of(d, f.t[i])
            if new:
                self.edit(f, i, new)
            return
        # a parameter of a type, or what a macro makes: by its name
        self.by_name(f, i, f.t[i], [d for d in self.tree.by_member.get(f.t[i], []) if d.kind in ("method", "aconst", "variant", "atype")])

    def by_name(self, f, i, name, ds):
        ds = [(d.root or d) for d in ds]
        ds = [d for d in ds if d.kind != "foreign"]
        news = {d.new for d in ds}
        if len(news) == 1 and None not in news:
            self.edit(f, i, self.new_of(ds[0]))
            return True
        if any(news):
            self.unsure.append(f"{self.at(f, i)}: {name}")
        return False

    def forced_for(self, f, name):
        place = f.path
        while place:
            got = self.forced.get((place, name))
            if got:
                return got
            place = os.path.dirname(place.rstrip("/"))
            place = place + "/" if place else ""
        return None

    def local_name(self, f, i):
        """What a local is called from now on; None where it keeps its name."""
        t = f.t[i]
        fn = f.outer_fn[i]
        key = (f.path, fn, t)
        if key in self.chosen:
            return self.chosen[key]
        place, options = f.path, None
        while place and options is None:
            options = self.locals.get(place, {}).get(t)
            place = os.path.dirname(place.rstrip("/"))
            place = place + "/" if place else ""
        options = options or self.locals.get("", {}).get(t)
        new = None
        if options and fn is not None:
            options = options.split("|")
            if options[0] == "?":
                options = self.by_value(f, fn, t) + options[1:]
            here = self.bare(f, fn)
            for option in options:
                if option == t:
                    break
                if option not in here and option not in self.taken.get((f.path, fn), ()):
                    new = option
                    break
            else:
                self.unsure.append(f"{self.at(f, i)}: local {t} stays: {'|'.join(options)} is there already")
        elif options:
            new = options.split("|")[-1] if f.in_macro_rules[i] else None
        if new:
            self.taken.setdefault((f.path, fn), set()).add(new)
            self.of_fn.setdefault((f.path, fn), {})[t] = new
        self.chosen[key] = new
        return new

    def bare(self, f, fn):
        """Names in a function that are not those of fields or methods, as they are after all renames of items."""
        key = (f.path, fn)
        if key not in self.bares:
            a, b = fn
            self.bares[key] = {
                f.t[j] for j in range(a, b + 1)
                if f.k[j] == "id" and f.t[j - 1] != "." and not (f.t[j + 1] == ":" and f.t[j - 1] in ("{", ",") and f.t[f.open_of[j]] == "{")
                and f.t[j - 1] != "::" and f.t[j + 1] != "::"
            } | {m for j in range(a, b + 1) if f.k[j] == "str" for m in re.findall(r"\{(\w+)[:}]", f.t[j])}
        return self.bares[key]

    def by_value(self, f, fn, t):
        """Names for a local by what it is bound to."""
        for j in range(fn[0], fn[1]):
            if f.k[j] == "id" and f.t[j] == t and f.t[j - 1] in ("let", "mut"):
                e = j + 1
                if f.t[e] == ":":
                    while f.t[e] not in ("=", ";"):
                        e += 1
                    types = set(f.t[j + 2 : e])
                else:
                    types = set()
                if f.t[e] != "=":
                    return []
                a = e + 1
                while e < f.n and f.t[e] != ";":
                    e = f.match[e] + 1 if f.t[e] in ("(", "[", "{") else e + 1
                words = f.t[a:e]
                if f.t[a] in ("|", "||", "move", "async"):
                    return ["describe", "read_back"]
                if f.k[a] == "str" or f.t[a : a + 2] == ["format", "!"]:
                    return ["expected", "text", "message"]
                if types & {"Vec", "HashSet", "BTreeSet", "HashMap", "BTreeMap"} or "collect" in words[-8:] or f.t[a] == "vec":
                    return ["listed", "entries", "items"]
                tail = [w for w in words[-12:]]
                if "into_string" in tail or "html" in words[:2]:
                    return ["html", "markup"]
                if "json" in words[:1] or "Map" in words[:1]:
                    return ["body", "document", "fields"]
                if "json" in tail:
                    return ["body", "answer", "document"]
                if "to_string" in tail or "to_owned" in tail or "String" in words[:1] or "text" in tail:
                    return ["text", "message", "output"]
                if "output" in tail:
                    return ["output", "printed"]
                if "await" in tail:
                    return ["answer", "response", "outcome"]
                return []
        return []

    def is_class(self, f, i):
        """Whether a token is a class in the markup of `html!`."""
        o = f.open_of[i]
        if o < 0 or f.t[o] != "{":
            return False
        outer = o
        while outer >= 0 and not (f.t[outer - 1] == "!" and f.t[outer - 2] == "html"):
            outer = f.open_of[outer]
        if outer < 0:
            return False
        j = i
        while j > o and f.t[j] not in ("{", "}", ";"):
            if f.t[j] == "@":
                return False
            j = f.match[j] - 1 if f.t[j] in (")", "]") else j - 1
        return True

    def member_access(self, f, i):
        if self.is_class(f, i):
            return
        name, call = f.t[i], f.t[i + 1] in ("(",) or (f.t[i + 1] == "::" and f.t[i + 2] == "<")
        kinds = ("method", "foreign") if call else ("field",)
        types = self.infer(f, i - 2)
        m = self.pick(types, name, kinds)
        if m:
            new = self.new_of(m)
            if new:
                self.edit(f, i, new)
            return
        forced = self.forced_for(f, name)
        if forced:
            self.edit(f, i, forced)
            return
        candidates = [d for d in self.tree.by_member.get(name, []) if (d.root or d).kind in kinds and self.sees(f, d)]
        if types and not candidates:
            return
        # Of those that the file sees: those of types that it names.
        named = [d for d in candidates if (d.root or d).owner is not None and (d.root or d).owner.name in f.words]
        if len({(d.root or d).new for d in candidates}) > 1 and len({(d.root or d).new for d in named}) == 1:
            self.unsure.append(f"{self.at(f, i)}: .{name} taken for that of {(named[0].root or named[0]).owner.name}")
            candidates = named
        near = [d for d in candidates if d.file is f]
        if len({(d.root or d).new for d in candidates}) > 1 and near and len({(d.root or d).new for d in near}) == 1 and not types:
            self.unsure.append(f"{self.at(f, i)}: .{name} taken for that of the same file")
            candidates = near
        if name in PASS and not types:
            return
        self.by_name(f, i, name, candidates)

    def sees(self, f, d):
        d = d.root or d
        if d.file is None or f.crate is None:
            return True
        if d.file.crate not in self.closure(f.crate):
            return False
        level = self.visibility(d)
        if d.file.crate.split("#")[0] != f.crate.split("#")[0] or "#" in f.crate and d.file.crate != f.crate:
            return level == "pub"
        if level == "own":
            return f is d.file or f.path.startswith(self.folder(d.file.path))
        if level == "super":
            return f.path.startswith(os.path.dirname(d.file.path) + "/") or f.path == os.path.dirname(d.file.path) + ".rs"
        return True

    def folder(self, path):
        return os.path.dirname(path) + "/" if os.path.basename(path) in ("lib.rs", "main.rs", "mod.rs") else path[:-3] + "/"

    def visibility(self, d):
        if d.owner is not None and (d.owner.kind in ("trait", "variant") or d.kind == "variant"):
            return "pub"
        f, j = d.file, d.token - 1
        while f.t[j] in ("fn", "const", "async", "unsafe", "type"):
            j -= 1
        if f.t[j] == "pub":
            return "pub"
        if f.t[j] == ")" and f.t[f.match[j] - 1] == "pub":
            return "super" if f.t[f.match[j] + 1] == "super" else "crate"
        return "own"

    def closure(self, crate):
        got = self.closures.get(crate)
        if got is None:
            got, todo = set(), [crate]
            while todo:
                c = todo.pop()
                if c in got:
                    continue
                got.add(c)
                todo += self.deps.get(c.split("#")[0], [])
                todo.append(c.split("#")[0])
            self.closures[crate] = got
        return got

    def literal_head(self, f, i):
        """The type whose literal, or pattern, token `i` is a field's name in."""
        o = f.open_of[i]
        if o < 1 or f.t[o] != "{":
            return None
        if f.t[i - 1] not in ("{", ",", "ref", "mut", "]"):
            return None
        h = o - 1
        if f.t[h] == ">":
            d = 0
            while h > 0:
                if f.t[h] == ">":
                    d += 1
                elif f.t[h] == "<":
                    d -= 1
                    if d == 0:
                        break
                h -= 1
            h -= 1
            if f.t[h] == "::":
                h -= 1
        if f.k[h] != "id" or not (f.t[h][0].isupper()):
            return None
        if f.t[h - 1] in ("struct", "enum", "union", "trait", "impl", "for", "mod", "->", "&", "dyn") or f.t[h - 1] == "impl":
            if f.t[h - 1] not in ("for", "&"):
                return None
        ds = self.path_ending(f, h)
        ds = [d for d in ds if d.kind in ("struct", "variant", "type", "enum", "union")]
        if ds and ds[0].kind == "type":
            ds = self.tree.mentions(ds[0])
        return ds[0] if ds else None

    def single(self, f, i):
        t, nxt, prev = f.t[i], f.t[i + 1], f.t[i - 1] if i else ""
        here = self.local_name(f, i) if t in self.local_words else None
        if nxt == ":" or nxt in (",", "}") or nxt == "@":
            head = self.literal_head(f, i)
            if head is not None:
                m = [x for x in self.tree.members(head, t) if x.kind == "field"]
                new = self.new_of(m[0]) if m else None
                if nxt == ":":
                    v = i + 2
                    if f.k[v] == "id" and f.t[v + 1] in (",", "}") and f.t[v] in self.local_words and self.local_name(f, v) == (new or t):
                        # `name: name` is `name`
                        f.edits[f.s[i]] = (f.s[v] + len(f.t[v]), new or t)
                        f.use_tokens.add(v)
                        return
                    if new:
                        self.edit(f, i, new)
                    return
                # shorthand
                inner = here or t
                field = new or t
                if m and field != inner:
                    if prev in ("ref", "mut"):
                        if new or here:
                            f.edits[f.s[i - 1]] = (f.s[i] + len(t), f"{field}: {prev} {inner}")
                    elif new or here:
                        self.edit(f, i, f"{field}: {inner}")
                elif m and (new or here):
                    self.edit(f, i, field)
                if m:
                    return
        # a path's first segment, or a name alone
        if nxt == "::" or t[0].isupper() or nxt in ("(", "!") or self.is_free(f, i, t):
            ds = self.tree.resolve_all(f.scope_at[i], [t], "type" if nxt == "::" and f.t[i + 2] != "<" else "any", None, self.self_type(f, i))
            ds = [d for d in ds if d.kind not in ("mod",) or nxt == "::" or prev == "in"]
            if ds:
                if not t[0].isupper() and ds[0].kind == "fn" and nxt == "(" and self.is_closure(f, i, t):
                    ds = []
            if ds:
                d = self.choose(ds, f, i)
                new = self.new_of(d, t)
                if new:
                    if new[0].islower() and d.kind in ("fn", "const", "static") and (
                        self.bound(f, i, new) or any(v == new and k != t for k, v in self.of_fn.get((f.path, f.outer_fn[i]), {}).items())
                    ):
                        self.tree.warnings.append(f"{self.at(f, i)}: a local {new} hides the function that {t} becomes")
                    self.edit(f, i, new)
                    return
                if d.kind != "mod":
                    return
        if here:
            if nxt == "=" and prev in ("(", ",") and f.open_of[i] > 1 and f.t[f.open_of[i] - 1] == "!" or prev == "fn" or nxt == "!":
                return
            if self.is_markup(f, i):
                return
            self.edit(f, i, here)

    def is_markup(self, f, i):
        """Whether a token is an element or an attribute in the markup of `html!`."""
        return f.t[i - 1] == "#" or "-" in (f.t[i - 1], f.t[i + 1]) and self.is_class(f, i) or f.t[i - 1] in ("{", "}", ";") and f.t[i + 1] in (".", "{", "#", ";") and self.is_class(f, i) or f.t[i + 1] == "=" and self.is_class(f, i) and f.t[i + 2] != "="

    def is_free(self, f, i, t):
        """Whether a name in lower case can be that of a function that is handed on."""
        ds = self.tree.resolve_all(f.scope_at[i], [t], "any")
        if not any(d.kind in ("fn", "const", "static") for d in ds):
            return False
        return not self.bound(f, i, t)

    def is_closure(self, f, i, t):
        """Whether a name that is called is a local, which shadows a function."""
        fn = f.fn_at[i]
        for a, b in [fn, f.outer_fn[i]] if fn else []:
            for j in range(a + 1, b):
                if f.k[j] == "id" and f.t[j] == t and f.t[j - 1] in ("let", "mut") and f.t[j + 1] == "=":
                    if f.t[j + 2] in ("|", "||", "move", "async"):
                        return True
                if f.k[j] == "id" and f.t[j] == t and f.t[j + 1] == ":" and f.t[j - 1] in ("(", ",") and f.t[f.open_of[j]] == "(":
                    words, e = [], j + 2
                    while f.t[e] not in (",", ")") and e < b:
                        words.append(f.t[e])
                        e = f.match[e] + 1 if f.t[e] in ("(", "[") else e + 1
                    if {"Fn", "FnMut", "FnOnce", "fn", "AsyncFn", "F"} & set(words):
                        return True
        return False

    def bound(self, f, i, t):
        fn = f.fn_at[i]
        if fn is None:
            return False
        for j in range(fn[0] + 1, fn[1]):
            if f.k[j] == "id" and f.t[j] == t and f.t[j - 1] not in (".", "::"):
                prev, nxt = f.t[j - 1], f.t[j + 1]
                if prev in ("let", "mut", "ref", "for") or prev == "|" or (prev == "&" and f.t[j - 2] in ("|", "(", ",", "for") and nxt in ("|", ")", ",", "in")):
                    return True
                if nxt == ":" and f.t[j + 2] != ":" and prev in ("(", ","):
                    o = f.open_of[j]
                    if f.t[o] == "(":
                        return True
                if nxt == "|":
                    return True
                o = f.open_of[j]
                if nxt in (")", ",") and f.t[o] == "(" and f.t[o - 1] in ("let", "for", "|", "Some", "Ok", "Err", "("):
                    k = f.match[o] + 1
                    while f.t[k] == ")":
                        k += 1
                    if f.t[k] in ("=", "=>", "in", "|", "if"):
                        return True
                if nxt in (",", "}") and f.t[o] == "{" and f.t[o - 1][:1].isupper():
                    k = f.match[o] + 1
                    while f.t[k] == ")":
                        k += 1
                    if f.t[k] in ("=", "=>", "in", "|", "if"):
                        return True
        return False

    # --- comments ------------------------------------------------------------------------------------------------------

    def comments(self, f):
        """Names in the backquotes and links of comments."""
        import bisect

        for a, b in f.comments:
            text = f.text[a:b]
            if "`" not in text and "[" not in text:
                continue
            at = bisect.bisect_left(f.s, a, 0, f.n)
            scope = f.scope_at[min(at, f.n - 1)] if f.n else None
            if scope is None:
                continue
            owner = self.self_type(f, min(at, f.n - 1))

            def span(m):
                code = m[0]
                if self.path_text(code):
                    return code
                return re.sub(r"[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*", lambda p: self.path_in_text(scope, owner, p[0]), code)

            out = re.sub(r"`[^`\n]+`|\]\([\w:]+\)|\[[\w:]+\](?=[^\w(])", span, text)
            if out != text:
                f.edits[a] = (b, out)

    def path_text(self, code):
        return bool(re.search(r"\w\.(rs|js|ts|json|jsonc|md|toml|mjs)\b|[ /\"]", code)) and "::" not in code

    def path_in_text(self, scope, owner, text):
        parts = re.split(r"(::|\.)", text)
        segs = parts[0::2]
        if not any(s in self.interesting for s in segs):
            return text
        out = list(parts)
        for n in range(len(segs)):
            ds = self.tree.resolve_all(scope, segs[: n + 1], "any", None, owner)
            if not ds and n == 0 and segs[0] in self.interesting:
                if owner is not None and owner.members.get(segs[0]):
                    ds = owner.members[segs[0]]
                elif segs[0][0].isupper() or "_" in segs[0] and len(segs[0]) > 8:
                    everywhere = self.by_any_name.get(segs[0], [])
                    if len({(d.root or d).new for d in everywhere}) == 1:
                        ds = everywhere[:1]
            ds = [d for d in ds if d and (d.root or d).name == segs[n]]
            news = {(d.root or d).new for d in ds if d}
            if len(news) == 1 and None not in news:
                out[2 * n] = news.pop()
        return "".join(out)

    # --- all of it -----------------------------------------------------------------------------------------------------

    def run(self):
        tree = self.tree
        self.deps, self.closures = {}, {}
        for crate, scope in tree.crates.items():
            folder = os.path.dirname(scope.file.path)
            while folder and not os.path.exists(os.path.join(folder, "Cargo.toml")):
                folder = os.path.dirname(folder)
            manifest = open(os.path.join(folder, "Cargo.toml"), encoding="utf-8").read()
            self.deps.setdefault(crate.split("#")[0], [])
            self.deps[crate.split("#")[0]] += [m.replace("-", "_") for m in re.findall(r"^(tollhouse[\w-]*)", manifest, re.M)]
        self.interesting = {d.name for d in tree.defs if d.new} | {d.name for d in tree.defs if d.root and d.root.new}
        self.members_renamed = {d.name for d in tree.defs if (d.root or d).new and d.kind in ("field", "method", "aconst", "foreign")}
        self.members_renamed |= {name for _, name in self.forced}
        self.by_any_name = {}
        for d in tree.defs:
            self.by_any_name.setdefault(d.name, []).append(d)
        of_file = {}
        for d in tree.defs:
            of_file.setdefault(d.file.path, []).append(d)
        self.local_words = set()
        for names in self.locals.values():
            self.local_words |= set(names)
        for f in tree.files.values():
            self.prepare(f)
            f.defs_here = of_file.get(f.path, [])
            f.def_tokens = {d.token for d in f.defs_here}
            f.use_tokens = set()
            f.words = set(f.t)
        for f in tree.files.values():
            self.comments(f)
            self.rename_file(f)
            self.attributes(f)

    def attributes(self, f):
        """Names in the strings of attributes, and of serde's fields that go by another name now."""
        for i in f.strings:
            o = f.open_of[i]
            if o > 0 and f.t[o] == "(" and f.t[o - 1] in ("serde", "arg", "command", "value", "debug", "error", "deserialize_with"):
                text = f.t[i].strip('"')
                if re.fullmatch(r"\w+(::\w+)*", text) and f.t[i - 1] == "=" and f.t[i - 2] not in ("rename", "rename_all", "long", "name", "id", "tag", "content"):
                    scope = f.scope_at[i]
                    if scope:
                        out = self.path_in_text(scope, self.self_type(f, i), text)
                        if out != text:
                            self.edit(f, i, f'"{out}"')
        for d in f.defs_here:
            if d.new and d.kind in ("field", "variant"):
                self.serialized(f, d)

    def serialized(self, f, d):
        owner = d.owner
        outer = owner.owner if owner.kind == "variant" else owner
        derives, rename_all = self.derives(f, outer)
        if d.kind == "field" and owner.kind == "variant":
            # rename_all of an enum is of its variants; of their fields it is said on the variant
            _, rename_all = self.derives(f, owner)
            _, of_fields = self.derives(f, outer, "rename_all_fields")
            rename_all = rename_all or of_fields
        if "Error" in derives:
            for i in f.strings:
                a, b = outer.token, self.end_of(f, outer)
                if a - 40 < i < b and "{" + d.name in f.t[i]:
                    at = f.s[i]
                    old = f.edits.get(at, (at + len(f.t[i]), f.t[i]))
                    f.edits[at] = (old[0], re.sub(r"\{" + d.name + r"(?=[:}.])", "{" + d.new, old[1]))
        if {"Args", "Parser", "Subcommand", "ValueEnum"} & derives:
            attrs = self.attrs(f, d)
            if not re.search(r"\b(long|name|id)\s*=|flatten|subcommand", attrs):
                self.tree.warnings.append(f"{self.at(f, d.token)}: {d.name} -> {d.new} changes what clap calls it")
        if not {"Serialize", "Deserialize"} & derives:
            return
        attrs = self.attrs(f, d)
        if re.search(r"\brename\s*=|flatten|\bskip\b|transparent", attrs):
            return
        wire = self.wire(d.name, rename_all, d.kind)
        if self.wire(d.new, rename_all, d.kind) == wire:
            return
        if "positional" in d.flags:
            return
        at = d.token
        start = f.s[at]
        # before `pub` and what stands before that
        j = at
        while f.t[j - 1] in ("pub", ")") or f.t[j - 1] == "pub":
            j = f.match[j - 1] if f.t[j - 1] == ")" else j - 1
        start = f.s[j]
        line = f.text.rfind("\n", 0, start) + 1
        indent = f.text[line:start] if f.text[line:start].strip() == "" else ""
        old = f.edits.get(start)
        text = f'#[serde(rename = "{wire}")]\n{indent}'
        if j == at:
            f.edits[start] = (start + len(d.name), text + d.new)
        else:
            f.edits[start] = (start, text)

    def wire(self, name, rule, kind):
        if rule is None:
            return name
        if kind == "field":
            words = name.split("_")
        else:
            words = [w.lower() for w in re.findall(r"[A-Z][a-z0-9]*", name)]
        if rule == "camelCase":
            return words[0] + "".join(w.capitalize() for w in words[1:])
        if rule == "snake_case":
            return "_".join(words)
        if rule == "kebab-case":
            return "-".join(words)
        if rule == "lowercase":
            return "".join(words)
        if rule == "UPPERCASE":
            return "".join(words).upper()
        if rule == "SCREAMING_SNAKE_CASE":
            return "_".join(words).upper()
        if rule == "PascalCase":
            return "".join(w.capitalize() for w in words)
        raise ValueError(rule)

    def end_of(self, f, d):
        i = d.token
        while i < f.n and f.t[i] not in ("{", ";"):
            i += 1
        return f.match[i] if f.t[i] == "{" else i

    def attrs(self, f, d):
        """The text of the attributes of a definition."""
        j = d.token - 1
        while j >= 0 and (f.t[j] in ("pub", "struct", "enum", "union", "type", "trait", "fn", "const", "async", "unsafe") or f.t[j] == ")"):
            j = f.match[j] - 1 if f.t[j] == ")" else j - 1
        out = []
        while j > 0 and f.t[j] == "]" and f.t[f.match[j] - 1] == "#":
            o = f.match[j]
            out.append(" ".join(f.t[o : j + 1]))
            j = o - 2
        return " ".join(out)

    def derives(self, f, d, rule="rename_all"):
        text = self.attrs(f, d)
        derives = set()
        for m in re.finditer(r"derive \( ([^)]*) \)", text):
            derives |= {x.strip().split(":: ")[-1].strip() for x in m[1].split(",")}
        m = re.search(rule + r' (?:= "([\w-]+)"|\( (?:de)?serialize = "([\w-]+)")', text)
        return derives, (m[1] or m[2]) if m else None


# --- the table ---------------------------------------------------------------------------------------------------------


def read_table(table, tree, renamer):
    """`FILE` begins a part; then `OLD -> NEW`, `TYPE.MEMBER -> NEW`, `mod -> NEW`, `let OLD -> NEW`, `.OLD -> NEW`."""
    moves, here, count = [], None, 0
    prefixes = []
    modules = {}
    for d in tree.defs:
        if d.kind == "mod" and d.module and d.module.file and d.module.file is not d.file:
            modules.setdefault(d.module.file.path, []).append(d)
    by_place = {}
    for d in tree.defs:
        by_place.setdefault((d.file.path, d.name), []).append(d)
    for number, line in enumerate(table.splitlines(), 1):
        line = line.split("  #")[0].rstrip()
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            here = line.strip()
            if here == "*":
                here = ""
            elif here.endswith(".js") and os.path.isfile(here):
                pass
            elif here not in tree.files and not (here.endswith("/") and os.path.isdir(here)):
                tree.warnings.append(f"no such file: {here}")
            continue
        for entry in line.strip().split(";"):
            entry = entry.strip()
            if not entry:
                continue
            old, new = [x.strip() for x in entry.split("->")]
            count += 1
            if here.endswith(".js"):
                scripts.setdefault(here, {})[old] = new
                continue
            if old == "mod":
                ds = modules.get(here, [])
                if not ds:
                    tree.warnings.append(f"{here}: no module to rename to {new}")
                for d in ds:
                    d.new = new
                if ds:
                    moves.append((here, new))
                continue
            if old.startswith("word "):
                prefixes.append((old[5:], new))
                continue
            if old.startswith("token "):
                renamer.everywhere[old[6:]] = new
                continue
            if old.startswith("let "):
                name = old[4:]
                f = tree.files.get(here)
                if f is not None and name not in f.t:
                    tree.warnings.append(f"{here}: no local {name}")
                renamer.locals.setdefault(here, {})[name] = new
                continue
            only = old.startswith("field ")
            old = old.removeprefix("field ")
            if here == "" or here.endswith("/") and not old.startswith("."):
                # all fields, functions and constants of that name that no line above names
                kinds = ("const", "static", "aconst") if old.isupper() else ("struct", "enum", "type") if old[0].isupper() else ("field",) if only else ("field", "method", "fn")
                for d in tree.defs:
                    if d.name == old and not (d.root or d).new and not d.root and d.kind in kinds and d.file.path.startswith(here):
                        d.new = new
                        d.flags = {"global"}
                continue
            if old.startswith("."):
                renamer.forced[(here, old[1:])] = new
                continue
            if "." in old:
                owner, name = old.split(".")
                call, name = name.endswith("()"), name.removesuffix("()")
                found = [m for d in by_place.get((here, owner), []) for m in d.members.get(name, [])]
                found += [d for d in by_place.get((here, name), []) if d.owner and d.owner.name == owner]
                # all parts of an impl in another file are members of the type as well
                found = [d for n, d in enumerate(found) if d not in found[:n] and d.kind != "foreign"]
                if call or any(d.new for d in found):
                    found = [d for d in found if d.kind == "method"]
            else:
                name = old.rstrip("()")
                found = [d for d in by_place.get((here, name), []) if d.kind not in ("field", "variant", "method", "aconst", "atype", "foreign")]
                if not found:
                    found = [d for d in by_place.get((here, name), []) if d.kind != "foreign"]
                if old.endswith("()"):
                    found = [d for d in found if d.kind in ("fn", "method")]
            if not found:
                tree.warnings.append(f"{here}: nothing is called {old}")
            for d in found:
                (d.root or d).new = new
    for old, new in prefixes:
        rename_words(tree, renamer, old, new)
    return moves, count


def rename_words(tree, renamer, old, new):
    """A word at the beginning of names, where nothing is called so already."""
    there = {t for f in tree.files.values() for t in set(f.t)}
    names = {t for t in there if t.startswith(old)}
    for name in sorted(names):
        ds = [d for d in tree.defs if d.name == name and not d.root]
        to = new + name[len(old) :]
        if to in there or any(d.new or d.kind not in ("const", "static", "aconst", "field", "method", "fn") for d in ds):
            continue
        for d in ds:
            d.new = to
        if name.islower():
            renamer.locals.setdefault("", {}).setdefault(name, to)


scripts = {}
Def.flags = set()


def rename_scripts():
    """Names in the worker's scripts, but for what comments say."""
    for path, names in scripts.items():
        text = open(path, encoding="utf-8").read()
        parts = re.split(r"(//[^\n]*|/\*.*?\*/)", text, flags=re.S)
        for old, new in names.items():
            if not any(re.search(rf"\b{old}\b", part) for part in parts[::2]):
                print(f"warning: {path}: nothing is called {old}")
        for n, part in enumerate(parts):
            for old, new in names.items():
                part = re.sub(rf"(?<!`)\b{old}\b(?!`)" if n % 2 == 0 else rf"`{old}`", new if n % 2 == 0 else f"`{new}`", part)
            parts[n] = part
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(parts))


def read_patterns(patterns, tree):
    """Words of the names of tests; the longest first."""
    rules, whole = [], {}
    for line in patterns.splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            old, new = [x.strip() for x in line.removeprefix("= ").split("->")]
            if line.startswith("= "):
                rules.append((f"^_{old}_$", f"_{new}_"))
                whole[old] = 0
            else:
                rules.append((old, new))
    taken = {}
    changed = {}
    for d in tree.defs:
        if d.kind != "fn" or d.new:
            continue
        f = d.file
        attrs = Renamer.attrs(None, f, d)
        if not re.search(r"\btest\b|test_case|rstest", attrs) and not (f.path.startswith("tests/store_contract/") and d.name.count("_") > 2):
            continue
        name = f"_{d.name}_"
        if d.name in whole:
            whole[d.name] = 1
        for old, new in rules:
            name = re.sub(old, new, name)
        name = re.sub("_+", "_", name).strip("_")
        if name != d.name:
            key = (id(d.parent), name)
            if key in taken or name in d.parent.items:
                tree.warnings.append(f"{f.path}: two tests would be {name}")
                continue
            taken[key] = True
            d.new = name
            changed[d.name] = name
    for name, uses in whole.items():
        if not uses:
            tree.warnings.append(f"no test is called {name}")
    return changed


def others(tree, words, moves, renamer):
    """Names of tests and of files in whatever else there is of text."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    for path in listed:
        if not re.search(r"\.(rs|md|toml|mjs|js|ts|json|jsonc|yml|yaml|sh|py|re|txt)$|^\.ci/|^\.cargo/", path):
            continue
        if re.search(r"package-lock|Cargo\.lock|node_modules|xtask/moves/|/vendor/|fixtures/data", path) or not os.path.isfile(path):
            continue
        try:
            text = open(path, encoding="utf-8", newline="").read()
        except UnicodeDecodeError:
            continue
        out = text
        if words:
            out = re.sub(r"\b[a-z0-9]+(?:_[a-z0-9]+){2,}\b", lambda m: words.get(m[0], m[0]), out)
        out = re.sub(r"(?<![\w/.])(?:[\w-]+/)+[\w-]+(?:\.rs\b|/)?", lambda m: moved_text(tree, m[0], moves), out)
        if path in SPECIAL:
            out = SPECIAL[path](tree, renamer, moves, out)
        if path.endswith(".md") and not path.startswith("docs/") and path != "CHANGELOG.md":
            out = re.sub(r"`[^`\n]+`", lambda m: in_document(renamer, m[0]), out)
        if out != text:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(out)


def bounds(tree, renamer, moves, text):
    """Rows that begin with a file and have names of what it defines."""
    here, back = None, {os.path.join(os.path.dirname(old), new + ".rs"): old for old, new in moves}
    # a file in a folder that moved as well
    for path in tree.files:
        to = moved(path, moves)
        if to != path:
            back[to] = path

    def one(m):
        nonlocal here
        word = m[1]
        if back.get(word, word) in tree.files:
            here = tree.files[back.get(word, word)]
        elif here is not None and re.fullmatch(r"\w+", word):
            news = {d.new for d in here.defs_here if d.name == word and not d.root}
            if len(news) == 1 and None not in news:
                return '"' + news.pop() + '"'
        return m[0]

    return re.sub(r'"([^"\n]*)"', one, text)


def moved(path, moves):
    for old, new in sorted(moves, key=lambda m: -m[0].count("/")):
        folder = old[:-3] + "/"
        if path == old:
            path = os.path.join(os.path.dirname(old), new + ".rs")
        elif path.startswith(folder):
            path = os.path.join(os.path.dirname(old), new) + "/" + path[len(folder) :]
    return path


def moved_text(tree, text, moves):
    """A path of a source, or of a module's folder, from the root or from `src`."""
    for prefix in ("", "src/"):
        path, end = prefix + text.rstrip("/"), "/" if text.endswith("/") else ""
        if path in tree.files:
            return moved(path, moves)[len(prefix) :] + end
        if path + ".rs" in tree.files and path.count("/") > 1:
            return moved(path + ".rs", moves)[len(prefix) : -3] + end
    return text


def areas(tree, renamer, moves, text):
    """Modules of tests by the beginnings of the names of their tests."""
    names = {os.path.basename(old)[:-3]: new for old, new in moves if os.path.dirname(old) == "tests/it"}
    return re.sub(r'"(\w+)::"', lambda m: f'"{names.get(m[1], m[1])}::"', text)


def mutants(tree, renamer, moves, text):
    def one(m):
        owners = [d for d in renamer.by_any_name.get(m[1], []) if d.kind in ("struct", "enum", "trait") and m[2] in d.members]
        if len(owners) != 1:
            return m[0]
        member = owners[0].members[m[2]][0]
        return (owners[0].new or m[1]) + "::" + ((member.root or member).new or m[2])

    text = re.sub(r"\b([A-Z]\w*[a-z]\w*)::(\w+)", one, text)
    return text


def tidy(tree, renamer, moves, text):
    text = text.replace('"Pairs", "Part", "StartOf"', '"KeyValues", "KeyPart", "KeyPrefix"')
    return text.replace("for Fault {", "for ApiError {").replace("const OWN: Known = Known {", "const OWN: KnownFormats = KnownFormats {")


SPECIAL = {
    "tests/tidy/bounds.rs": bounds,
    "xtask/mutants/src/rooms.rs": areas,
    ".cargo/mutants.toml": mutants,
    "tests/tidy.rs": tidy,
}


def in_document(renamer, code):
    """Names of one meaning in a code span of a document."""
    if re.search(r"[/\"$ ]", code):
        return code

    def new(m):
        ds = [d for d in renamer.by_any_name.get(m[0], []) if not d.root]
        if (m[0][0].isupper() or "_" in m[0]) and ds and len({d.new for d in ds}) == 1 and ds[0].new:
            return ds[0].new
        return m[0]

    return re.sub(r"[A-Za-z_]\w*", new, code)


def move(moves, apply_git=True):
    # the deepest first, so that a folder's files are there still
    for old, new in sorted(moves, key=lambda m: -m[0].count("/")):
        target = os.path.join(os.path.dirname(old), new + ".rs")
        if os.path.exists(target):
            print(f"warning: {target} is there already")
            continue
        subprocess.run(["git", "mv", old, target], check=True)
        folder = old[:-3]
        if os.path.isdir(folder):
            subprocess.run(["git", "mv", folder, os.path.join(os.path.dirname(old), new)], check=True)


def collisions(tree):
    for d in tree.defs:
        if not d.new:
            continue
        if d.kind in ("field", "method", "variant", "aconst"):
            for m in (d.owner.members.get(d.new, []) if d.owner else []):
                if m is not d and not (m.root or m).new and (m.kind == d.kind) and m.kind != "foreign":
                    tree.warnings.append(f"{d.file.path}: {d.owner.name}.{d.new} is there already")
        elif d.parent is not None and not isinstance(d.parent, Def):
            for m in d.parent.items.get(d.new, []):
                if m is not d and not m.new and (m.kind == "mod") == (d.kind == "mod") and (m.kind == "fn") == (d.kind == "fn"):
                    tree.warnings.append(f"{d.file.path}: {d.new} is there already")
            for path, alias, glob in d.parent.uses:
                if not glob and (alias or path[-1][0]) == d.new and d.kind != "mod":
                    ds = tree.resolve_all(d.parent, [p[0] for p in path], "any")
                    if not any((x.root or x).new for x in ds) and not (d.kind == "fn" and ds and ds[0].kind == "mod"):
                        tree.warnings.append(f"{d.file.path}: {d.new} is imported already")


def main():
    root = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True).stdout.strip()
    os.chdir(root)
    sys.setrecursionlimit(10000)
    tree = Tree(root)
    renamer = Renamer(tree)
    renamer.forced = {}
    for d in tree.defs:
        d.flags = set()
    moves, count = read_table(TABLE, tree, renamer)
    words = read_patterns(TESTS, tree)
    for d in tree.defs:
        if d.new and d.kind == "fn" and d.name.count("_") >= 3:
            words[d.name] = d.new
    collisions(tree)
    renamer.run()
    dry = "--dry-run" in sys.argv
    for f in tree.files.values():
        if not f.edits:
            continue
        out, last = [], 0
        for start in sorted(f.edits):
            end, new = f.edits[start]
            if start < last:
                continue
            out += [f.text[last:start], new]
            last = end
        out.append(f.text[last:])
        if not dry:
            with open(f.path, "w", encoding="utf-8", newline="") as file:
                file.write("".join(out))
    if not dry:
        rename_scripts()
        others(tree, words, moves, renamer)
        move(moves)
    for line in tree.warnings:
        print("warning:", line)
    if "--unsure" in sys.argv:
        for line in renamer.unsure:
            print("unsure:", line)
    print(f"{count} renames, {len(words)} names of tests, {len(moves)} modules; {len(renamer.unsure)} places to look at (--unsure)")


if __name__ == "__main__":
    main()
