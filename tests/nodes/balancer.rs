//! A load balancer: each new connection goes to the next node that takes it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Ends with all its connections when it is dropped.
pub struct Balancer {
    pub url: String,
    nodes: Arc<Mutex<Vec<SocketAddr>>>,
    task: JoinHandle<()>,
}

impl Balancer {
    pub async fn start(nodes: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let nodes = Arc::new(Mutex::new(nodes));
        let task = tokio::spawn(accept(listener, nodes.clone()));
        Self { url, nodes, task }
    }

    /// Which nodes there are from now on.
    pub fn set(&self, nodes: Vec<SocketAddr>) {
        *self.nodes.lock().expect("not poisoned") = nodes;
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, nodes: Arc<Mutex<Vec<SocketAddr>>>) {
    let turn = Arc::new(AtomicUsize::new(0));
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        let (nodes, turn) = (nodes.lock().expect("not poisoned").clone(), turn.clone());
        connections.spawn(async move {
            for _ in 0..nodes.len() {
                let node = nodes[turn.fetch_add(1, SeqCst) % nodes.len()];
                if let Ok(mut server) = TcpStream::connect(node).await {
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                    return;
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
