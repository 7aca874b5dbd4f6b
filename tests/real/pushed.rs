//! Agents that push their runs themselves, and what a kill of the server does to them: nothing.
