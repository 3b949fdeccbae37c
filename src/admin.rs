//! The admin listener: `/metrics`, `/livez`, `/readyz`.
