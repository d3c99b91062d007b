//! Observation of the decisions that the fast path makes about a frame. The code that decides passes each decision to a
//! [`Trace`]; with [`NoTrace`] this costs nothing.

use core::ops::Range;

/// Defines [`Rule`] with the name and the text of each rule.
macro_rules! rules {
    ($($rule:ident $name:literal $text:literal)*) => {
        /// Rule that the fast path applies to a frame or to its table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Rule {
            $(#[doc = $text] $rule,)*
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$rule,)*];

            /// Returns the name for programs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

            /// Returns the statement that the rule tests, for people.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$rule => $text,)*
                }
            }
        }
    };
}

rules! {
    EthernetHeader "ethernet_header" "The frame has a whole Ethernet header, with its VLAN tag."
    VlanTag "vlan_tag" "The EtherType is that of a VLAN tag (0x8100 or 0x88a8)."
    EtherTypeIpv4 "ethertype_ipv4" "The EtherType is IPv4."
    EtherTypeIpv6 "ethertype_ipv6" "The EtherType is IPv6."
    IpHeader "ip_header" "The frame has a whole IP header."
    Ipv4Start "ipv4_start" "The IP version is 4, and the header has no options."
    Unfragmented "unfragmented" "The packet is not a fragment."
    Ipv6Version "ipv6_version" "The IP version is 6."
    ProtocolUdp "protocol_udp" "The protocol is UDP."
    IpLength "ip_length" "The length of the IP packet is at least that of its header."
    UdpHeader "udp_header" "The frame has the length field of a UDP header."
    UdpLength "udp_length" "The UDP length equals the length of the IP payload, and is within the frame."
    ServicePort "service_port" "The destination port is the port of the service."
    OwnAddress "own_address" "The destination address is an address at which the fast path answers."
    OwnMac "own_mac" "The destination MAC address is that of the interface."
    SourcePort "source_port" "The source port is not 0 and not a port of a Lineside service."
    SourceAddress "source_address" "The source address may be answered: it is neither own, multicast nor broadcast."
    SourceMac "source_mac" "The source MAC address is not a multicast address."
    HopLeft "hop_left" "The reply has a hop left (time to live or hop limit)."
    Changes "changes" "The request may change the fast-path table."
    UdpChecksum "udp_checksum" "The UDP checksum is correct."
    ReplyFits "reply_fits" "The reply fits into one packet."
    ReplyLength "reply_length" "The reply is as long as its request."
    FastPath "fast_path" "The fast path of the service has the answer."
    PaperLength "paper_length" "The payload has the length of a request in the paper's format."
    NotUnknownReply "not_unknown_reply" "The payload is not the paper's reply for an unknown key (zeros)."
    PaperFormat "paper_format" "The service answers requests in the paper's format."
    NativeMagic "native_magic" "The payload begins with the magic number of the native format."
    NoReplyBit "no_reply_bit" "The payload is a request: its reply bit is 0."
    NativeVersion "native_version" "The version of the native format is supported."
    NativeLength "native_length" "The length field equals the length of the body, and the status field is 0."
    Body "body" "The operation is known, and its body has the right length and zeros in its padding."
    Operation "operation" "The fast path answers this operation."
    ItemPadding "item_padding" "The bytes after the key of an item are zero."
    EpochEven "epoch_even" "The epoch of the table is even: no change of the chain is in progress."
    Lease "lease" "The lease of the fast path is valid."
    KeyWord "key_word" "A line of the key's set begins with the first 8 bytes of the key."
    Line "line" "This line has the whole key, refers to a block, and was not written during the read."
    BlockGeneration "block_generation" "The block has the generation that the line refers to."
    BlockUnchanged "block_unchanged" "The block did not change during the read."
    Tree "tree" "The table has the Merkle tree of the block."
    PathFits "path_fits" "The path fits into the space that the request reserves."
    EpochSame "epoch_same" "The epoch of the table did not change during the read."
    CommandKnown "command_known" "The command is known, with an amount for TRANSFER, and the padding is zero."
    Refer "refer" "The operation is REFER, which changes nothing."
    Executes "executes" "The fast path executes operations: its mode is `express`."
    Unsigned "unsigned" "The service requires no signatures."
    Plain "plain" "The request has few operations, and none is linked or under a contract."
    Permitted "permitted" "The sender may execute this command."
    RingRoom "ring_room" "The ring has room for a record of each operation."
    SessionOpen "session_open" "The session is open, and has the token of the request."
    Unlocked "unlocked" "The locks that the request needs are free."
    SessionUnclaimed "session_unclaimed" "The host has not claimed the session."
    NewSequence "new_sequence" "The sequence number differs from that of the session's last packet."
    SameOperations "same_operations" "The repetition has the operations of the last packet."
    NextSequence "next_sequence" "The sequence number is the next one of the session."
    WellFormed "well_formed" "The operation is well-formed."
    AccountExists "account_exists" "The table has this account."
    AccountRead "account_read" "The account was not being changed during the read."
    BalanceFits "balance_fits" "The balance fits into the 32 bits of the paper's format."
    OtherAccount "other_account" "The destination is not the source."
    AccountsUnclaimed "accounts_unclaimed" "The host has claimed no account of the operation."
    NewTransactionId "new_transaction_id" "The transaction id is higher than the last one of the account."
    CellFree "cell_free" "A bucket of the new account has a free cell."
    RefusalCredit "refusal_credit" "There is credit to record one more refusal."
    Done "done" "The operation is done: accounts, balances, limits and frozen flags permit it."
}

/// Receiver of the decisions about one frame, in their order.
pub trait Trace {
    /// Receives a decision between two ways to go on, about these bytes, and returns it. An empty range means that the
    /// rule does not look at the frame.
    fn choose(&mut self, rule: Rule, bytes: Range<usize>, holds: bool) -> bool;

    /// Receives the test of a condition, and returns its result. If it does not hold, the fast path does not answer,
    /// and makes no further decision.
    fn require(&mut self, rule: Rule, bytes: Range<usize>, holds: bool) -> bool;

    /// Receives a value on which the next decision depends.
    fn fact(&mut self, name: &'static str, value: impl FnOnce() -> u64);

    /// Makes the ranges of the following decisions relative to this offset in the frame.
    fn set_base(&mut self, offset: usize);
}

/// Trace that ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTrace;

impl Trace for NoTrace {
    #[inline(always)]
    fn choose(&mut self, _rule: Rule, _bytes: Range<usize>, holds: bool) -> bool {
        holds
    }

    #[inline(always)]
    fn require(&mut self, _rule: Rule, _bytes: Range<usize>, holds: bool) -> bool {
        holds
    }

    #[inline(always)]
    fn fact(&mut self, _name: &'static str, _value: impl FnOnce() -> u64) {}

    #[inline(always)]
    fn set_base(&mut self, _offset: usize) {}
}
