"""Plan which keys to split, and how many parts each owner gets.

1. `chooser` plans whole keys first. If these reach the aim, no key is split.
2. Otherwise it asks `splitting` for a plan with split keys, for one imbalance after another.
3. `split_candidates.cut` takes out the keys that are too heavy to stay whole: a `Cut`.
4. `shares.fewest_owners` chooses the channels that share each of them: its `Owners`.
5. `split_candidates.remaining_problem` keeps room for them, and the search places all whole items.
6. `shares.shared` pours the keys into the room that is left. Their shares end within the budget.
7. `chooser` takes the most even of these candidates, or leaves everything as it is.
"""
