"""Our own strategy: the best trade of balance against bytes moved."""
