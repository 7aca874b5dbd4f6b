//! What holds for a store in PostgreSQL.
