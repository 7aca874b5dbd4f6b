mod left;
mod network;
mod processes;
