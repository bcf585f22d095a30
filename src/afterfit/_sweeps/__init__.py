"""Many runs: sweeps over settings and seeds, phase diagrams and scaling laws, and the store that keeps them."""
