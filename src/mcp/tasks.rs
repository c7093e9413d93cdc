//! Long-running calls as tasks (extension `io.modelcontextprotocol/tasks`), kept in the store.
//!
//! A task's id is 128 random bits behind its time, and who shows it may see and cancel the task: callers have no other
//! name. A task is held by the replica that runs it, and is told by each; one whose replica is gone ends as its payment says:
//! settled, the answer is there; released, nothing was taken and nothing is run again.

mod record;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rmcp::{ErrorData, model::CreateTaskResult};
use serde_json::value::to_raw_value;
use tokio::sync::mpsc;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

pub(super) use self::record::Looked;
use self::record::{Record, State, TASKS, as_object, is_id, new_id};
use super::{
    answer::{self, ToolAnswer},
    begun::Begun,
    offer::Dialect,
    recalls::{Recallable, Recalls},
    revision::Era,
    services::Services,
};
use crate::{
    base::{aside::aside, clock::Clock},
    call::{CallError, Done, Progress},
    front::Fault,
    money::{Ended, Gate},
    replica::Replica,
    store::{Batch, Direction, Durability, Row, Store, StoreError, update},
};

/// Time to the next try after the end of a task could not be stored.
const RETRY: Duration = Duration::from_secs(2);
/// How long a call may take to start before its client gets a task for it anyway.
const START: Duration = Duration::from_secs(5);
/// Time between two looks for tasks to forget.
const SWEEP: Duration = Duration::from_secs(600);
/// Tasks forgotten in one commit.
const BATCH: usize = 256;
/// Tries of a conditional commit: each failure means that another succeeded.
const TRIES: usize = 100;

/// All tasks of a host.
pub(super) struct Tasks {
    store: Arc<dyn Store>,
    clock: Clock,
    gate: Arc<Gate>,
    background: TaskTracker,
    base_url: String,
    replica: Arc<Replica>,
    recalls: Arc<Recalls>,
    running: Mutex<HashMap<String, Running>>,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").finish_non_exhaustive()
    }
}

/// A task that this process runs.
struct Running {
    cancel: CancellationToken,
    /// What its handler said last.
    said: Option<String>,
}

/// What came of starting a call as a task.
pub(super) enum Started {
    Task(ToolAnswer),
    /// It ended before it ran for long, or was refused.
    Ended(Result<Done, Arc<CallError>>),
}

impl Tasks {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(services: &Services, recalls: Arc<Recalls>) -> Arc<Self> {
        let tasks = Arc::new(Self {
            store: Arc::clone(&services.store),
            clock: services.clock.clone(),
            gate: Arc::clone(&services.gate),
            background: services.shared.background.clone(),
            base_url: services.base_url.clone(),
            replica: Arc::clone(&services.replica),
            recalls,
            running: Mutex::default(),
        });
        let weak = Arc::downgrade(&tasks);
        tokio::spawn(async move {
            while let Some(tasks) = weak.upgrade() {
                if let Err(error) = tasks.forget().await {
                    tracing::error!(%error, "old tasks could not be forgotten");
                }
                drop(tasks);
                tokio::time::sleep(SWEEP).await;
            }
        });
        tasks
    }

    /// Waits until a call's payment is reserved and its input fits: then it becomes a task that outlives the request.
    ///
    /// # Errors
    ///
    /// The store's, when the task cannot be kept: then the call is taken back.
    pub(super) async fn keep(self: &Arc<Self>, mut begun: Begun, dialect: Dialect) -> Result<Started, StoreError> {
        let payment = tokio::select! {
            biased;
            ended = &mut begun.performing => return Ok(Started::Ended(ended)),
            Some(progress) = next(&mut begun.happened) => match progress {
                Progress::Accepted { payment, .. } => payment,
                Progress::Update(_) => None,
            },
            () = tokio::time::sleep(START) => None,
        };
        let now = self.clock.now();
        let id = new_id()?;
        let holder = self.replica.id().to_string();
        let record = Record { holder, payment, state: State::Working, created_at: now, updated_at: now };
        // The client must find it at once.
        self.running().insert(id.clone(), Running { cancel: begun.cancel.clone(), said: None });
        let mut batch = Batch::new();
        batch.insert(&TASKS, &id, &record);
        if let Err(error) = batch.commit(&*self.store, Durability::Durable).await {
            self.running().remove(&id);
            return Err(error);
        }
        begun.stop.take().map(DropGuard::disarm);
        let created = CreateTaskResult::new(record.told(&id, "running".to_owned()));
        let tasks = Arc::clone(self);
        self.background.spawn(async move { tasks.follow(id, dialect, begun).await });
        Ok(Started::Task(ToolAnswer { response: created.into(), structured: None }))
    }

    /// Waits for the end of a task, and hears on the way what its handler says.
    async fn follow(&self, id: String, dialect: Dialect, mut begun: Begun) {
        let ended = loop {
            tokio::select! {
                biased;
                ended = &mut begun.performing => break ended,
                Some(progress) = next(&mut begun.happened) => {
                    if let (Progress::Update(heard), Some(running)) = (progress, self.running().get_mut(&id)) {
                        running.said = Some(heard.message);
                    }
                }
            }
        };
        let state = match ended {
            Ok(done) => aside(done.answer.body.len(), || completed(answer::done(&done, &self.base_url, dialect))).await,
            Err(error) if matches!(*error, CallError::Cancelled) => State::Cancelled,
            Err(error) => refused(&error, dialect),
        };
        self.end(&id, &state).await;
        self.running().remove(&id);
    }

    /// Stores the end of a task of ours.
    async fn end(&self, id: &str, state: &State) {
        for _ in 0..TRIES {
            let ending = update(&*self.store, Durability::Durable, |mut tx| async move {
                if let Some(row) = tx.row(&TASKS, &id.to_owned()).await?.filter(|row| row.value.state.is_working()) {
                    let record = Record { state: state.clone(), updated_at: self.clock.now(), ..row.value.clone() };
                    tx.replace(&TASKS, &row, &record);
                }
                tx.answer::<_, StoreError>(())
            });
            match ending.await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, "the end of a task could not be stored yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// A task as it is now; `None` when there is none with this id.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn get(&self, id: &str) -> Result<Option<Looked>, StoreError> {
        let Some(row) = self.read(id).await? else { return Ok(None) };
        let mut record = row.value.clone();
        if record.state.is_working()
            && !record.is_held_by(self.replica.id())
            && let Some(state) = self.orphan(&record).await?
        {
            record = Record { state, updated_at: self.clock.now(), ..record };
            let mut batch = Batch::new();
            batch.replace(&TASKS, &row, &record);
            match batch.commit(&*self.store, Durability::Durable).await {
                Ok(_) => {}
                // Somebody else found its end, or it lives.
                Err(StoreError::Conflict) => match self.read(id).await? {
                    Some(now) => record = now.value,
                    None => return Ok(None),
                },
                Err(error) => return Err(error),
            }
        }
        let said = self.running().get(id).and_then(|running| running.said.clone());
        Ok(Some(Looked::of(id, record, said.unwrap_or_else(|| "running".to_owned()))))
    }

    /// How a task ended whose replica is not this one; `None` while it may still be running or settling.
    async fn orphan(&self, record: &Record) -> Result<Option<State>, StoreError> {
        let lives = self.replica.living().await?.has(record.holder().as_ref());
        let ended = match &record.payment {
            Some(payment) => self.gate.ended(payment).await?,
            None => Ended::Without,
        };
        Ok(match ended {
            Ended::Answer(answer) => {
                let done = Done { answer: Arc::new(answer), payment: record.payment.clone(), success: true, first: false };
                // Who asks is of the revision that has tasks; how they paid is not remembered.
                let dialect = Dialect { era: Era::Modern, wire: None, dotted: false };
                Some(completed(answer::done(&done, &self.base_url, dialect)))
            }
            Ended::Lost => {
                let payment = record.payment.clone().expect("only payments have answers to lose");
                let fault = Fault::from(&CallError::AnswerLost(payment));
                Some(State::Failed(as_object(&ErrorData::internal_error(fault.message().to_owned(), Some(fault.error())))))
            }
            Ended::Open | Ended::NotYet => None,
            Ended::Without if !lives => {
                let message = match &record.payment {
                    Some(payment) => format!(
                        "the host was restarted while the call ran; nothing was charged, and payment `{payment}` is good for another call"
                    ),
                    None => "the host was restarted while the call ran; call again, with the same payment if there was one".to_owned(),
                };
                Some(State::Failed(as_object(&ErrorData::internal_error(message, None))))
            }
            Ended::Without => None,
        })
    }

    /// Takes a task back, if it has not ended and is not being settled. False when there is none with this id.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn cancel(&self, id: &str) -> Result<bool, StoreError> {
        if self.recall(id, Duration::ZERO) {
            return Ok(true);
        }
        let Some(row) = self.read(id).await? else { return Ok(false) };
        if row.value.state.is_working() {
            self.recalls.tell(id).await?;
        }
        Ok(true)
    }

    /// Whether there is a task with this id.
    ///
    /// # Errors
    ///
    /// The store's.
    pub(super) async fn has(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.read(id).await?.is_some())
    }

    async fn read(&self, id: &str) -> Result<Option<Row<String, Record>>, StoreError> {
        if !is_id(id) {
            return Ok(None);
        }
        Ok(TASKS.row(&*self.store, &id.to_owned()).await?.filter(|row| !row.value.is_expired(self.clock.now())))
    }

    /// Forgets tasks past their time. Ids sort by time.
    async fn forget(&self) -> Result<(), StoreError> {
        loop {
            let now = self.clock.now();
            let oldest = TASKS.readable(&*self.store, &TASKS.all(), BATCH, Direction::Forward).await?;
            let expired = |record: &Option<Record>| record.as_ref().is_some_and(|record| record.is_expired(now));
            let mut batch = Batch::new();
            oldest.iter().take_while(|(_, record)| expired(record)).for_each(|(id, _)| _ = batch.delete(&TASKS, id));
            if batch.changes_nothing() {
                return Ok(());
            }
            batch.commit(&*self.store, Durability::Buffered).await?;
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recallable for Tasks {
    fn any(&self) -> bool {
        !self.running().is_empty()
    }

    /// No other task has its id.
    fn recall(&self, id: &str, _ago: Duration) -> bool {
        self.running().get(id).map(|running| running.cancel.cancel()).is_some()
    }
}

/// A call that ended without a result, as the state of its task.
fn refused(error: &CallError, dialect: Dialect) -> State {
    match answer::failed(&Fault::from(error), dialect) {
        Ok(result) => completed(result.into()),
        Err(error) => State::Failed(as_object(&error)),
    }
}

async fn next(happened: &mut Option<mpsc::Receiver<Progress>>) -> Option<Progress> {
    happened.as_mut()?.recv().await
}

/// Who asks for a task is of the newest revision. Challenges came before the task.
fn completed(told: ToolAnswer) -> State {
    State::Completed(to_raw_value(&told.written(Era::Modern, false)).expect("results have text keys"))
}
