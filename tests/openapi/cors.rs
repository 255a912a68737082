//! CORS.
