//! The table of codes.

use super::*;
use crate::optional::GUESTS;

/// Makes [`ErrorKind`] and all that leads to it. A boundary has a condition under which its enum is compiled,
/// and a condition under which the program contains its codes.
macro_rules! table {
    ($(
        $boundary:ident($error:ident) if $gate:meta, $named:ident {
            $($kind:ident = $code:literal,)*
        }
    )*) => {
        /// The kind of an [`Error`], without its details.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(
                #[cfg($gate)]
                #[doc = concat!("[`", stringify!($error), "::", stringify!($kind), "`], with the code `", $code, "`.")]
                $kind,
            )*)*
        }

        impl ErrorKind {
            /// All kinds, in the order of the table.
            pub const ALL: &[ErrorKind] = &[$($(
                #[cfg($gate)]
                ErrorKind::$kind,
            )*)*];

            /// The stable code of the errors of this kind, the same on each surface.
            pub const fn code(self) -> &'static str {
                match self {
                    $(
                        #[cfg($gate)]
                        $(ErrorKind::$kind)|* if !$named => "members_unsupported",
                    )*
                    $($(
                        #[cfg($gate)]
                        ErrorKind::$kind => $code,
                    )*)*
                }
            }
        }

        #[cfg(feature = "members")]
        impl Error {
            /// The kind of this error.
            pub const fn kind(&self) -> ErrorKind {
                match self {
                    $(
                        #[cfg($gate)]
                        Error::$boundary(error) => error.kind(),
                    )*
                }
            }
        }

        #[cfg(feature = "members")]
        impl core::fmt::Display for Error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(
                        #[cfg($gate)]
                        Error::$boundary(error) => core::fmt::Display::fmt(error, f),
                    )*
                }
            }
        }

        $(
            #[cfg($gate)]
            impl $error {
                /// The kind of this error.
                #[inline(always)]
                pub const fn kind(&self) -> ErrorKind {
                    match self {
                        $($error::$kind { .. } => ErrorKind::$kind,)*
                    }
                }

                /// The stable code of this error, the same on each surface.
                pub const fn code(&self) -> &'static str {
                    self.kind().code()
                }
            }

            #[cfg($gate)]
            impl core::error::Error for $error {}

            #[cfg($gate)]
            impl From<$error> for Error {
                #[inline(always)]
                fn from(error: $error) -> Error {
                    #[cfg(feature = "members")]
                    return Error::$boundary(error);
                    #[cfg(not(feature = "members"))]
                    return Error(error.kind());
                }
            }
        )*
    };
}

table! {
    Write(WriteError) if all(), true {
        KeyLength = "key_length",
        SpaceName = "space_name",
        Overflow = "overflow",
        WideTotal = "wide_total",
        ExpiryRange = "expiry_range",
        TransactionTooLarge = "transaction_too_large",
        ClockExhausted = "clock_exhausted",
        UnknownKeyId = "unknown_handle",
        CountersFull = "counters_full",
        WritersFull = "writers_full",
    }
    Merge(MergeError) if all(), true {
        NotCovered = "not_covered",
        OwnClockAhead = "own_clock_ahead",
    }
    Admission(AdmissionError) if all(), GUESTS {
        Gone = "gone",
        Behind = "behind",
        Outdated = "outdated",
        Unsure = "unsure",
        Stranger = "stranger",
        Retired = "retired",
    }
    Member(MemberError) if all(), GUESTS {
        Closed = "closed",
        NotAMember = "not_a_member",
        MembersFull = "members_full",
        UnknownWriter = "unknown_writer",
    }
    Scope(ScopeError) if feature = "guests", true {
        NotYours = "not_yours",
        BeyondRole = "beyond_role",
        Expired = "expired",
        ShareFull = "share_full",
        KeyedFull = "keyed_full",
    }
    Quota(QuotaError) if feature = "budgets", true {
        ReservedKey = "key_reserved",
        WrongKind = "wrong_kind",
        NoBudget = "no_budget",
        NoSequence = "no_sequence",
        SequenceExists = "sequence_exists",
        NumbersShort = "numbers_short",
        NumberOnce = "number_once",
        NumberRange = "number_range",
        WatchesFull = "watches_full",
        AmountRange = "amount_range",
        RightsShort = "rights_short",
        RoomShort = "room_short",
        LeaseRange = "lease_range",
        LeaseId = "lease_id",
        LeaseOnce = "lease_once",
        NoLease = "no_lease",
        NoLimit = "no_limit",
        LimitName = "limit_name",
        LimitRange = "limit_range",
        PeriodRange = "period_range",
        LimitsFull = "limits_full",
        LimitReached = "limit_reached",
    }
    Decode(DecodeError) if all(), true {
        Truncated = "truncated",
        TrailingBytes = "trailing_bytes",
        Number = "number",
        Malformed = "malformed",
        TooLarge = "too_large",
        MembersUnsupported = "members_unsupported",
    }
    Link(LinkError) if all(), true {
        NotAFrame = "not_a_frame",
        Version = "version",
        WrongSpace = "wrong_space",
        Handshake = "handshake",
    }
    Token(TokenError) if feature = "tokens", true {
        Token = "token",
        TokenFull = "token_full",
    }
}
