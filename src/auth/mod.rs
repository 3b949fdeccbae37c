//! SigV4: verifying what clients sent, signing what goes to the store.
