mod left;
mod network;
mod processes;
mod standbys;
