//! The messages of GoBGP 3's interface that are spoken here, with the fields that are read or written.

use prost::Message;

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct Family {
    #[prost(int32, tag = "1")]
    pub(crate) afi: i32,
    #[prost(int32, tag = "2")]
    pub(crate) safi: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Path {
    #[prost(message, optional, tag = "1")]
    pub(crate) nlri: Option<Any>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) pattrs: Vec<Any>,
    #[prost(message, optional, tag = "9")]
    pub(crate) family: Option<Family>,
    /// Of the peer that it came from; of the daemon's own no address.
    #[prost(string, tag = "15")]
    pub(crate) neighbor_ip: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct AddPathRequest {
    #[prost(int32, tag = "1")]
    pub(crate) table_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) path: Option<Path>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct AddPathResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) uuid: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct DeletePathRequest {
    #[prost(int32, tag = "1")]
    pub(crate) table_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) family: Option<Family>,
    #[prost(message, optional, tag = "4")]
    pub(crate) path: Option<Path>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Nothing {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ListPathRequest {
    #[prost(int32, tag = "1")]
    pub(crate) table_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) family: Option<Family>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct ListPathResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) destination: Option<Destination>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Destination {
    #[prost(string, tag = "1")]
    pub(crate) prefix: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) paths: Vec<Path>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GetBgpResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) global: Option<Global>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Global {
    #[prost(uint32, tag = "1")]
    pub(crate) asn: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct IPAddressPrefix {
    #[prost(uint32, tag = "1")]
    pub(crate) prefix_len: u32,
    #[prost(string, tag = "2")]
    pub(crate) prefix: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct OriginAttribute {
    #[prost(uint32, tag = "1")]
    pub(crate) origin: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct NextHopAttribute {
    #[prost(string, tag = "1")]
    pub(crate) next_hop: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct LargeCommunitiesAttribute {
    #[prost(message, repeated, tag = "1")]
    pub(crate) communities: Vec<LargeCommunity>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(crate) struct LargeCommunity {
    #[prost(uint32, tag = "1")]
    pub(crate) global_admin: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) local_data1: u32,
    #[prost(uint32, tag = "3")]
    pub(crate) local_data2: u32,
}

/// As the interface names a message inside another.
pub(crate) fn url(name: &str) -> String {
    format!("type.googleapis.com/apipb.{name}")
}

pub(crate) fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: url(name), value: message.encode_to_vec() }
}

/// `None`: it is another, or cannot be read.
pub(crate) fn read<M: Message + Default>(name: &str, any: &Any) -> Option<M> {
    (any.type_url == url(name)).then(|| M::decode(any.value.as_slice()).ok())?
}
