//! One connection between neighbours: frames in, frames out, and the ways it can be lost.

use super::{
    config::Limits,
    frame::{self, FRAME_BYTES_MAX, Frame, FrameError},
    seal::SealError,
    tls::{Binding, Tls},
};
use bytes::{Bytes, BytesMut};
use std::{
    fmt,
    future::Future,
    io::{self, Cursor},
    pin::pin,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, join, split},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};

/// Read from a socket at a time.
const READ_BYTES: usize = 64 << 10;

/// Signs of life within what counts as silence: a late timer or two must not look like a cut.
const KEEP_ALIVES: u32 = 5;

/// Why a circuit ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lost {
    #[error("the neighbour closed the connection")]
    Closed,
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("nothing was heard for {} ms", .0.as_millis())]
    Silent(Duration),
    #[error("nothing was taken for {} ms", .0.as_millis())]
    Stuck(Duration),
    #[error("the neighbour does not speak the protocol: {0}")]
    Frame(#[from] FrameError),
    #[error("the neighbour broke the protocol: {0}")]
    Protocol(&'static str),
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("link {link} is not known here")]
    NoLink { link: String },
    #[error("{to} is not reached over link {link}: {why}")]
    Unreached { to: String, link: String, why: String },
    /// Said by a hop further on.
    #[error("{0}")]
    Told(String),
    /// Something here, not the network.
    #[error("{0}")]
    Local(String),
    #[error("the way to the neighbour changed")]
    Changed,
    #[error("another path of the leg carries it")]
    HandedOver,
}

#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) reader: HopReader,
    pub(crate) writer: HopWriter,
}

/// Which side of a channel this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Calls,
    Listens,
}

pub(crate) struct HopReader {
    half: Box<dyn AsyncRead + Send + Sync + Unpin>,
    buffer: BytesMut,
    pub(crate) frame_limit: usize,
    heard: Instant,
    pub(crate) silence: Duration,
}

pub(crate) struct HopWriter {
    half: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    out: BytesMut,
    stuck: Duration,
    pub(crate) keep_alive: Duration,
    /// A frame went out in part only: nothing can follow it.
    torn: bool,
}

impl Hop {
    pub(crate) fn new(stream: TcpStream, frame_limit: usize, limits: &Limits) -> Result<Self, Lost> {
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let (heard, silence) = (Instant::now(), limits.silence);
        let (read, write) = (Box::new(read), Box::new(write));
        let reader = HopReader { half: read, buffer: BytesMut::new(), frame_limit, heard, silence };
        let (stuck, keep_alive) = (limits.stuck, limits.keep_alive);
        Ok(Self { reader, writer: HopWriter { half: write, out: BytesMut::new(), stuck, keep_alive, torn: false } })
    }

    /// The same within a channel of its own, and what is unique to that.
    pub(crate) async fn within(self, tls: &Tls, part: Part) -> Result<(Self, Binding), Lost> {
        let Self { mut reader, mut writer } = self;
        // the channel's first octets may have come with the last of the plain ones
        let early = Cursor::new(std::mem::take(&mut reader.buffer).freeze());
        let plain = join(early.chain(reader.half), writer.half);
        let (stream, binding) = match part {
            Part::Calls => tls.connect(plain).await?,
            Part::Listens => tls.accept(plain).await?,
        };
        let (read, write) = split(stream);
        (reader.half, writer.half) = (Box::new(read), Box::new(write));
        Ok((Self { reader, writer }, binding))
    }

    /// A neighbour that is silent for so long is lost; each side says often enough that it is alive.
    pub(crate) fn watched(mut self, silence: Option<Duration>) -> Self {
        if let Some(silence) = silence {
            (self.reader.silence, self.writer.keep_alive) = (silence, silence / KEEP_ALIVES);
        }
        self
    }

    /// The other side has proved who it is.
    pub(crate) fn trusted(mut self) -> Self {
        self.reader.frame_limit = FRAME_BYTES_MAX;
        self
    }
}

impl fmt::Debug for HopReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HopReader").field("silence", &self.silence).finish_non_exhaustive()
    }
}

impl fmt::Debug for HopWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HopWriter").field("torn", &self.torn).finish_non_exhaustive()
    }
}

impl HopReader {
    /// The next frame as it came, its length in front. Loses nothing when dropped half way.
    pub(crate) async fn whole(&mut self) -> Result<Bytes, Lost> {
        loop {
            if let Some(whole) = frame::take(&mut self.buffer, self.frame_limit)? {
                return Ok(whole);
            }
            self.buffer.reserve(READ_BYTES.min(self.frame_limit + 4));
            match timeout_at(self.heard + self.silence, self.half.read_buf(&mut self.buffer)).await {
                Err(_) => return Err(Lost::Silent(self.silence)),
                Ok(read) => {
                    if read? == 0 {
                        return Err(Lost::Closed);
                    }
                }
            }
            self.heard = Instant::now();
        }
    }

    /// The next frame that says something.
    pub(crate) async fn frame(&mut self) -> Result<Frame, Lost> {
        loop {
            match frame::parse(&self.whole().await?)? {
                Frame::KeepAlive => {}
                Frame::Error(text) => return Err(Lost::Told(text)),
                frame => return Ok(frame),
            }
        }
    }

    /// Whether another frame has already arrived whole.
    pub(crate) fn has_frame(&self) -> bool {
        let length = self.buffer.first_chunk::<4>().map(|length| u32::from_be_bytes(*length) as usize);
        length.is_some_and(|length| self.buffer.len() >= length.saturating_add(4))
    }
}

impl HopWriter {
    pub(crate) async fn frame(&mut self, frame: &Frame) -> Result<(), Lost> {
        self.out.clear();
        frame::put(frame, &mut self.out);
        let out = self.out.split();
        let sent = self.raw(&out).await;
        self.out = out;
        sent
    }

    pub(crate) async fn raw(&mut self, octets: &[u8]) -> Result<(), Lost> {
        if self.torn {
            return Err(Lost::Closed);
        }
        self.torn = true;
        let written = async {
            self.half.write_all(octets).await?;
            // a channel keeps what the socket does not take
            self.half.flush().await
        };
        timeout(self.stuck, written).await.map_err(|_| Lost::Stuck(self.stuck))??;
        self.torn = false;
        Ok(())
    }

    /// Waits for `event`, telling the neighbour now and then that this side is alive.
    pub(crate) async fn idle_until<T>(&mut self, event: impl Future<Output = T>) -> Result<T, Lost> {
        let mut event = pin!(event);
        loop {
            match timeout(self.keep_alive, event.as_mut()).await {
                Ok(value) => return Ok(value),
                Err(_) => self.frame(&Frame::KeepAlive).await?,
            }
        }
    }

    /// Says why this side gives up, if it still can without waiting long.
    pub(crate) async fn farewell(&mut self, why: &str) {
        let told = Frame::Error(why.to_owned());
        if timeout(Duration::from_millis(200), self.frame(&told)).await.is_err() {
            tracing::trace!(why, "a neighbour could not be told");
        }
    }
}
