//! Load on `transfer`: batches of transfers in sessions, between accounts of a reserved range. Each session has its own
//! accounts, so that the balance after every operation is known and compared.

use super::draws::Draws;
use super::{Judgement, Kind, LoadError, Report, Result, Traffic, setup, status_name};
use lineside_client::ClientError;
use lineside_client::transfer::AccountId;
use lineside_client::transfer::{Client, DATAGRAM_OPERATIONS, Session};
use lineside_testkit::Random;
use lineside_wire::{
    ExecuteHead, Operation, Status, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_DURABLE, TRANSFER_EXPRESS, TRANSFER_OP_EXECUTE, TRANSFER_REFER_MAX,
    TransferCode as Code, native,
};
use std::net::SocketAddr;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Maximum number of operations in one packet.
pub const BATCH_MAX: usize = DATAGRAM_OPERATIONS;
/// First half of the ids of accounts that are reserved for loads.
const RESERVED: [u8; 8] = *b"lab/load";
/// Balance that every account gets if it has less than [`BALANCE_MIN`].
const BALANCE: u64 = 1_000_000_000;
const BALANCE_MIN: u64 = 1_000_000;
/// Maximum amount of a transfer.
const AMOUNT_MAX: u64 = 100;

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of the reserved range of accounts. Loads that run at the same time need different ranges.
    pub range: u32,
    /// Number of accounts, at least two for each session.
    pub accounts: u32,
    /// Number of sessions over all threads.
    pub sessions: usize,
    /// Number of operations in a packet.
    pub batch: usize,
    /// True if each session draws its accounts by Zipf's law.
    pub is_zipf: bool,
    /// Seed of the drawn operations.
    pub seed: u64,
}

/// Accounts of the load with their balances before it, and open sessions.
pub struct Prepared {
    options: Options,
    accounts: Vec<AccountId>,
    balances: Vec<u64>,
    sessions: Vec<Session>,
}

/// Returns the id of an account in a reserved range.
fn account(range: u32, index: u32) -> AccountId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&RESERVED);
    id[8..12].copy_from_slice(&range.to_be_bytes());
    id[12..].copy_from_slice(&index.to_be_bytes());
    AccountId(id)
}

fn operation(command: u8, source: AccountId, amount: u64) -> Operation {
    let mut operation = Operation::new_zeroed();
    (operation.command, operation.source, operation.amount) = (command, source.0, amount.into());
    operation
}

/// Sends operations of the preparation. `is_fine` returns true for the expected codes.
fn execute_all(
    client: &mut Client,
    session: &mut Session,
    operations: &[Operation],
    is_fine: impl Fn(Code) -> bool,
) -> Result<()> {
    for packet in operations.chunks(DATAGRAM_OPERATIONS) {
        let executed = client.execute(session, packet).map_err(setup)?;
        if let Some(bad) = executed.outcomes.iter().find(|outcome| !is_fine(outcome.code)) {
            let hint = match bad.code {
                Code::Unauthorised => {
                    "; run the load from an address in `issuers`, such as the server's machine"
                }
                Code::StoreFull => "; give fewer --accounts, or raise `account_bits`",
                _ => "",
            };
            return Err(LoadError::Setup(format!(
                "the server refuses the accounts of the load: {} ({}){hint}",
                bad.code.name(),
                bad.code.meaning()
            )));
        }
    }
    Ok(())
}

/// Returns the balances of accounts.
fn balances(client: &mut Client, accounts: &[AccountId]) -> Result<Vec<u64>> {
    let mut balances = Vec::with_capacity(accounts.len());
    for some in accounts.chunks(TRANSFER_REFER_MAX) {
        for (account, found) in some.iter().zip(client.refer(some).map_err(setup)?) {
            match found {
                Some(found) if !found.frozen && found.held == 0 => balances.push(found.balance),
                Some(_) => {
                    return Err(LoadError::Setup(format!(
                        "account {account} is frozen or has pending transfers; give another --range"
                    )));
                }
                None => return Err(LoadError::Setup(format!("account {account} does not exist"))),
            }
        }
    }
    Ok(balances)
}

/// Creates the accounts that do not exist yet, issues amounts to those with little, and opens the sessions.
///
/// # Errors
/// The server does not answer or refuses; see [`LoadError::Setup`].
pub fn prepare(server: SocketAddr, options: Options, timeout: Duration) -> Result<Prepared> {
    let mut client = Client::connect(server, timeout).map_err(setup)?;
    let mut first = client.open().map_err(setup)?;
    let accounts: Vec<_> = (0..options.accounts)
        .map(|index| account(options.range, index))
        .collect();
    let create: Vec<_> = accounts
        .iter()
        .map(|account| operation(TRANSFER_COMMAND_CREATE, *account, BALANCE))
        .collect();
    execute_all(&mut client, &mut first, &create, |code| {
        matches!(code, Code::Done | Code::AccountExists)
    })?;
    let poor: Vec<_> = balances(&mut client, &accounts)?
        .into_iter()
        .zip(&accounts)
        .filter(|(balance, _)| *balance < BALANCE_MIN)
        .map(|(_, account)| operation(TRANSFER_COMMAND_ISSUE, *account, BALANCE))
        .collect();
    execute_all(&mut client, &mut first, &poor, |code| code == Code::Done)?;
    let balances = balances(&mut client, &accounts)?;
    let mut sessions = vec![first];
    while sessions.len() < options.sessions {
        let opened = client.open();
        sessions.push(opened.map_err(|error| match error {
            ClientError::NoSession(_) => setup(format!("{error}; or give fewer --sessions")),
            error => setup(error),
        })?);
    }
    Ok(Prepared {
        options,
        accounts,
        balances,
        sessions,
    })
}

/// State of a session.
struct SessionState {
    session: Session,
    /// Place of its first account among all accounts.
    first: usize,
    /// Balances of its accounts.
    balances: Vec<u64>,
    /// Operations of the packet in flight.
    packet: Vec<Operation>,
    /// True once the outcome of its last packet is unknown; the session sends nothing more.
    is_over: bool,
}

/// Packet in flight.
#[derive(Debug)]
pub struct Asked {
    session: usize,
}

/// Requests of one thread.
pub struct TransferTraffic {
    accounts: std::sync::Arc<[AccountId]>,
    batch: usize,
    /// Draws an account among those of a session.
    draws: Draws,
    sessions: Vec<SessionState>,
    /// Sessions that have no packet in flight.
    free: Vec<usize>,
    random: Random,
    operations: u64,
    refused_operations: u64,
    express: u64,
}

impl Prepared {
    /// Distributes the sessions over `threads` threads.
    pub fn traffics(&self, threads: usize) -> Vec<TransferTraffic> {
        let accounts: std::sync::Arc<[AccountId]> = self.accounts.clone().into();
        let share = self.accounts.len() / self.sessions.len();
        let draws = Draws::new(share as u64, self.options.is_zipf);
        let mut seeds = Random(self.options.seed);
        let mut traffics: Vec<_> = (0..threads)
            .map(|_| TransferTraffic {
                accounts: accounts.clone(),
                batch: self.options.batch,
                draws: draws.clone(),
                sessions: Vec::new(),
                free: Vec::new(),
                random: Random(seeds.next()),
                operations: 0,
                refused_operations: 0,
                express: 0,
            })
            .collect();
        for (number, session) in self.sessions.iter().enumerate() {
            let traffic = &mut traffics[number % threads];
            let first = number * share;
            traffic.free.push(traffic.sessions.len());
            traffic.sessions.push(SessionState {
                session: session.clone(),
                first,
                balances: self.balances[first..first + share].to_vec(),
                packet: Vec::new(),
                is_over: false,
            });
        }
        traffics
    }

    /// Compares the balances of all accounts with those that follow from the answers, and their sum with the sum before
    /// the load. Closes the sessions.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn check(
        &self,
        server: SocketAddr,
        timeout: Duration,
        traffics: &[TransferTraffic],
        report: &mut Report,
    ) -> Result<()> {
        let mut client = Client::connect(server, timeout).map_err(setup)?;
        let found = balances(&mut client, &self.accounts)?;
        let sum = |balances: &[u64]| balances.iter().map(|balance| u128::from(*balance)).sum::<u128>();
        let (before, after) = (sum(&self.balances), sum(&found));
        if before != after {
            report.contradictions.push(format!(
                "the accounts of the load held {before} before and {after} after it: transfers do not change the sum"
            ));
        }
        let states = traffics.iter().flat_map(|traffic| &traffic.sessions);
        for state in states {
            let found = &found[state.first..state.first + state.balances.len()];
            let mut executed = state.balances.clone();
            if state.is_over {
                apply(&mut executed, &self.accounts[state.first..], &state.packet);
            }
            if found != state.balances && found != executed {
                report.contradictions.push(format!(
                    "the balances of session {} differ from those that its answers had",
                    state.session.slot
                ));
            }
            report.count("sessions_lost", u64::from(state.is_over));
            if !state.is_over {
                // A session that cannot be closed ends by itself later.
                let _ = client.close(&state.session);
            }
        }
        Ok(())
    }
}

/// Executes transfers between `accounts`, whose balances are `balances`.
fn apply(balances: &mut [u64], accounts: &[AccountId], packet: &[Operation]) {
    let place = |id: &[u8; 16]| accounts.iter().position(|account| account.0 == *id).unwrap_or(0);
    for operation in packet {
        balances[place(&operation.source)] -= operation.amount.get();
        balances[place(&operation.destination)] += operation.amount.get();
    }
}

impl SessionState {
    /// Returns the place of an account of this session.
    fn place(&self, id: &[u8; 16]) -> usize {
        // The last four bytes of an account are its index; the session's accounts are in their order.
        let index = u32::from_be_bytes([id[12], id[13], id[14], id[15]]) as usize;
        index.wrapping_sub(self.first).min(self.balances.len() - 1)
    }

    /// Draws the operations of the next packet. Every source has the amount.
    fn draw(&mut self, accounts: &[AccountId], batch: usize, draws: &Draws, random: &mut Random) {
        let mut balances = self.balances.clone();
        let own = &accounts[self.first..self.first + balances.len()];
        self.packet.clear();
        for _ in 0..batch {
            let amount = 1 + random.below(AMOUNT_MAX);
            let mut source = draws.draw(random) as usize;
            if balances[source] < amount {
                source = (0..own.len()).max_by_key(|at| balances[*at]).unwrap_or(0);
            }
            let drawn = draws.draw(random) as usize;
            let destination = if drawn == source {
                (source + 1) % own.len()
            } else {
                drawn
            };
            balances[source] -= amount;
            balances[destination] += amount;
            let mut transfer = operation(TRANSFER_COMMAND_TRANSFER, own[source], amount);
            transfer.destination = own[destination].0;
            transfer.uuid[..8].copy_from_slice(&random.next().to_be_bytes());
            transfer.uuid[8..].copy_from_slice(&random.next().to_be_bytes());
            self.packet.push(transfer);
        }
    }
}

impl TransferTraffic {
    /// Checks the reply to a packet that was executed, and applies it to the known balances.
    fn judge_executed(&mut self, session: usize, body: &[u8]) -> std::result::Result<Option<Code>, String> {
        let state = &mut self.sessions[session];
        let malformed = "the reply to `execute` is malformed";
        let (head, rest) = ExecuteHead::ref_from_prefix(body).map_err(|_| malformed)?;
        let replies = <[Operation]>::ref_from_bytes(rest).map_err(|_| malformed)?;
        let asked = (state.session.token, state.session.slot, state.session.next);
        if (head.token.get(), head.slot.get(), head.sequence.get()) != asked {
            return Err("the reply belongs to another session or packet".into());
        }
        let durability = head.durability.get();
        if replies.len() != state.packet.len() || usize::from(head.count.get()) != replies.len() {
            return Err("the reply has another number of operations".into());
        }
        if ![TRANSFER_DURABLE, TRANSFER_EXPRESS].contains(&durability) {
            return Err(format!("the durability {durability} has no meaning"));
        }
        let mut first_refusal = None;
        let mut last_number = 0;
        let mut balances = state.balances.clone();
        for (asked, reply) in state.packet.iter().zip(replies) {
            let same = (asked.command, asked.source, asked.destination, asked.uuid)
                == (reply.command, reply.source, reply.destination, reply.uuid);
            let code = Code::from_code(reply.code.get()).filter(|_| same);
            let code = code.ok_or("an operation in the reply is not the requested one")?;
            let (source, amount) = (state.place(&asked.source), asked.amount.get());
            match code {
                Code::Done => {
                    let left = balances[source].checked_sub(amount);
                    balances[source] =
                        left.ok_or("a transfer was executed that the balance does not allow")?;
                    balances[state.place(&asked.destination)] += amount;
                    if reply.amount.get() != balances[source] {
                        return Err(format!(
                            "account {} has {} after the operation, not {}",
                            AccountId(asked.source),
                            balances[source],
                            reply.amount.get()
                        ));
                    }
                    let number = reply.number.get();
                    if durability == TRANSFER_DURABLE && number <= last_number {
                        return Err(format!("operation number {number} does not follow {last_number}"));
                    }
                    last_number = number;
                }
                Code::Busy | Code::Frozen | Code::Unauthorised | Code::StoreFull => {
                    first_refusal = first_refusal.or(Some(code));
                    self.refused_operations += 1;
                }
                code => {
                    let account = AccountId(asked.source);
                    return Err(format!(
                        "a transfer of {amount} from {account}, which has {}, was refused: {}",
                        balances[source],
                        code.name()
                    ));
                }
            }
        }
        state.balances = balances;
        state.session.next += 1;
        self.operations += replies.len() as u64;
        self.express += u64::from(durability == TRANSFER_EXPRESS);
        Ok(first_refusal)
    }
}

impl Traffic for TransferTraffic {
    type Asked = Asked;

    fn draw(&mut self) -> Option<Kind> {
        Some(Kind::Write)
    }

    fn ask(&mut self, _kind: Kind, id: u64, out: &mut Vec<u8>) -> Result<Option<Asked>> {
        let Some(session) = self.free.pop() else {
            if self.sessions.iter().all(|state| state.is_over) {
                return Err(LoadError::Setup(
                    "every session has lost a packet, so none can continue; raise --timeout-ms, or check the server"
                        .into(),
                ));
            }
            return Ok(None);
        };
        let state = &mut self.sessions[session];
        state.draw(&self.accounts, self.batch, &self.draws, &mut self.random);
        let head = ExecuteHead {
            token: state.session.token.into(),
            sequence: state.session.next.into(),
            slot: state.session.slot.into(),
            count: (state.packet.len() as u16).into(),
            durability: 0.into(),
        };
        let bytes = size_of::<ExecuteHead>() + size_of_val(&state.packet[..]);
        let header = native::request_header(TRANSFER_OP_EXECUTE, id, bytes as u16);
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(state.packet.as_bytes());
        Ok(Some(Asked { session }))
    }

    fn case(&self, _asked: &Asked) -> &'static str {
        "execute"
    }

    fn judge(&mut self, asked: Asked, status: Status, body: &[u8]) -> Judgement {
        if status != Status::Ok {
            // The packet was not executed, or its outcome is unknown; the session does not continue.
            self.lost(asked);
            return Judgement::Refused(status_name(status));
        }
        match self.judge_executed(asked.session, body) {
            Ok(refusal) => {
                self.free.push(asked.session);
                match refusal {
                    None => Judgement::Right,
                    Some(code) => Judgement::Refused(code.name().to_owned()),
                }
            }
            Err(why) => {
                self.lost(asked);
                Judgement::Wrong(why)
            }
        }
    }

    fn lost(&mut self, asked: Asked) {
        self.sessions[asked.session].is_over = true;
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts = vec![("operations", self.operations)];
        if self.refused_operations > 0 {
            counts.push(("operations_refused", self.refused_operations));
        }
        if self.express > 0 {
            counts.push(("express_packets", self.express));
        }
        counts
    }
}
