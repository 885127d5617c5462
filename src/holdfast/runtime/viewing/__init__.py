"""Views at run time: where their rows are kept, who folds them, and how they are read."""
