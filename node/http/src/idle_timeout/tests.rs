use super::*;
use futures::poll;
use tallymesh_node_ground::model::Role;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;

/// Clients at this address that always want to connect.
struct Crowd(Vec<DuplexStream>, u128);

impl Comes for u128 {
    fn network(&self) -> u128 {
        *self
    }
}

/// A client with a ticket of this number.
fn with(ticket: u128, role: Role) -> access::Client {
    let mut client = access::Client::new(None, role, None);
    client.party.ticket = Some(ticket);
    client
}

impl Listener for Crowd {
    type Io = DuplexStream;
    type Addr = u128;

    async fn accept(&mut self) -> (DuplexStream, u128) {
        let (client, node) = duplex(64);
        self.0.push(client);
        (node, self.1)
    }

    fn local_addr(&self) -> io::Result<u128> {
        Ok(self.1)
    }
}

fn listener(places: usize) -> (IdleTimeoutListener<Crowd>, Metrics) {
    let metrics = Metrics::new();
    let listener = IdleTimeoutListener::new(Crowd(Vec::new(), 1), places, metrics.clone());
    (listener, metrics)
}

/// A connection, by both of its ends.
async fn come(
    listener: &mut IdleTimeoutListener<Crowd>,
) -> (DuplexStream, IdleTimeoutStream<DuplexStream>) {
    let (node, _) = listener.accept().await;
    (listener.listener.0.pop().expect("somebody came"), node)
}

fn gives_way(node: &IdleTimeoutStream<DuplexStream>) -> bool {
    node.client.gives_way.load(Ordering::Relaxed)
}

/// Waits until a connection gives way, and drops it.
async fn expect_gone(mut node: IdleTimeoutStream<DuplexStream>) {
    let mut byte = [0];
    let read = timeout(Duration::from_secs(10), node.read(&mut byte)).await;
    let error = read.expect("in time").expect_err("it gives way");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

/// How long a connection still has, in whole seconds.
fn left(node: &IdleTimeoutStream<DuplexStream>) -> Option<u64> {
    let due = node.client.due()?;
    let left = due.saturating_duration_since(Instant::now());
    Some(left.as_secs_f64().round() as u64)
}

#[tokio::test]
async fn each_phase_has_its_time() {
    let (mut listener, _) = listener(9);
    let (mut client, mut node) = come(&mut listener).await;
    assert_eq!(left(&node), Some(10), "it has said nothing yet");
    for _ in 0..2 {
        client.write_all(b"ab").await.expect("write");
        node.read_u8().await.expect("it is read");
        assert_eq!(left(&node), Some(10), "the head is under way");
        let due = node.client.due();
        node.read_u8().await.expect("it is read");
        assert_eq!(node.client.due(), due, "more of it does not put it off");
        node.client().asked();
        assert_eq!(left(&node), Some(35), "as long as a request may take");
        node.client().answered();
        assert_eq!(
            left(&node),
            Some(60),
            "the answer is not late, however long it took"
        );
        node.write_all(b"c").await.expect("write");
        assert_eq!(left(&node), Some(60));
    }
    node.client().asked();
    assert_eq!(node.client().streams(with(1, Role::Member)), Ok(()));
    assert_eq!(left(&node), None, "a stream may be silent");
    client.write_all(b"a").await.expect("write");
    node.read_u8().await.expect("it is read");
    assert_eq!(left(&node), Some(35), "what came is to be finished");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed() {
    let (mut listener, _) = listener(9);
    let (_client, mut node) = come(&mut listener).await;
    assert_eq!(node.client().streams(with(1, Role::Member)), Ok(()));
    node.write_all(&[0; 64]).await.expect("there is room");
    let error = node.write_all(b"d").await.expect_err("it is closed");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn the_most_silent_gives_way_to_newcomers() {
    let (mut listener, metrics) = listener(4);
    let figure = |name: &str| {
        let text = metrics.text(&[]);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|it| it.trim().to_owned()).expect("a figure")
    };
    let (_one, asked) = come(&mut listener).await;
    asked.client().asked();
    let (_two, streams) = come(&mut listener).await;
    assert_eq!(streams.client().streams(with(1, Role::Member)), Ok(()));
    let (_three, silent) = come(&mut listener).await;
    sleep(GIVES_WAY / 4).await;
    let (_four, later) = come(&mut listener).await;
    assert_eq!(figure("tallymesh_http_clients "), "4");
    assert_eq!(figure("tallymesh_http_full_total "), "0");
    let mut fifth = Box::pin(listener.accept());
    assert!(poll!(&mut fifth).is_pending(), "nobody was silent for long");
    assert_eq!(figure("tallymesh_http_full_total "), "1");
    let ((_fifth, _), ()) = tokio::join!(fifth, expect_gone(silent));
    assert_eq!(figure("tallymesh_http_clients "), "4");
    assert!(!gives_way(&asked) && !gives_way(&streams) && !gives_way(&later));
}

#[tokio::test]
async fn streams_leave_places_for_requests() {
    let (mut listener, _) = listener(4);
    let mut nodes = Vec::new();
    for _ in 0..4 {
        nodes.push(come(&mut listener).await);
    }
    let streams = |nodes: &[(DuplexStream, IdleTimeoutStream<DuplexStream>)], at: usize| {
        let member = with(at as u128, Role::Member);
        nodes[at].1.client().streams(member).is_ok()
    };
    assert!((0..3).all(|at| streams(&nodes, at)));
    assert!(!streams(&nodes, 3), "the last place is for requests");
    nodes[0].1.client().asked();
    assert!(streams(&nodes, 3), "one has ended");
    drop(nodes.remove(1));
    assert!(streams(&nodes, 0), "one has gone");
}

/// Many guests with endless requests keep no new client out, and neither does an address with many
/// connections.
#[tokio::test]
async fn requests_of_guests_that_do_not_end_give_way_and_those_of_members_do_not() {
    let (mut listener, _) = listener(2);
    let (_one, member) = come(&mut listener).await;
    member.client().asked();
    let (_two, guest) = come(&mut listener).await;
    guest.client().asked();
    guest.client().is_guest();
    let mut third = Box::pin(listener.accept());
    assert!(poll!(&mut third).is_pending(), "it may take so long");
    let ((third, _), ()) = tokio::join!(third, expect_gone(guest));
    drop(third);
    assert!(!gives_way(&member));
}

#[tokio::test]
async fn the_address_with_the_most_connections_gives_way_first() {
    let (mut listener, _) = listener(3);
    let (_one, alone) = come(&mut listener).await;
    listener.listener.1 = 2;
    let (_two, first) = come(&mut listener).await;
    let (_three, second) = come(&mut listener).await;
    sleep(GIVES_WAY).await;
    let (_fourth, ()) = tokio::join!(listener.accept(), expect_gone(first));
    assert!(!gives_way(&alone) && !gives_way(&second));
}
