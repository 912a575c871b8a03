"""The split of a shared execution's rows among consumers. Pure: bundles in, bundles out, no waiting."""

from __future__ import annotations

from collections import deque

from heliostat.data.plan.operators import Bundle


class RowSplit:
    """Deals bundles to ``n`` hands.

    Without ``equal`` each goes to the hand with the fewest rows so far. With ``equal`` all hands get
    the same number of rows: a bundle is dealt only while what is undealt could still fill up all other
    hands, the rest is cut at the end, and what cannot be shared equally is dropped.
    """

    def __init__(self, n: int, equal: bool, homes: list[str | None] | None = None) -> None:
        self._n, self._equal = n, equal
        self._homes = homes or [None] * n
        self._dealt = [0] * n
        self._stock: deque[Bundle] = deque()
        self.hands: list[deque[Bundle]] = [deque() for _ in range(n)]
        self.ended = False

    @property
    def waiting_bytes(self) -> int:
        """Bytes of bundles that nobody has taken."""
        return sum(b.size for b in self._stock) + sum(b.size for h in self.hands for b in h)

    def add(self, bundle: Bundle) -> None:
        """Deal one more bundle."""
        if not bundle.rows:
            return
        self._stock.append(bundle)
        while self._stock:
            hand = self._next_hand(self._stock[0])
            if self._equal and not self._can_level(hand, self._stock[0].rows):
                return
            self._give(hand, self._stock.popleft())

    def _next_hand(self, bundle: Bundle) -> int:
        fewest = min(range(self._n), key=self._dealt.__getitem__)
        if not bundle.node:
            return fewest
        # A hand on the block's node may get it although it is somewhat ahead.
        near = [
            i
            for i in range(self._n)
            if self._homes[i] == bundle.node and self._dealt[i] <= self._dealt[fewest] + bundle.rows
        ]
        return min(near, key=self._dealt.__getitem__) if near else fewest

    def _can_level(self, hand: int, rows: int) -> bool:
        """Whether the rest of the stock could bring all others to what this hand would have."""
        left = sum(b.rows for b in self._stock) - rows
        after = [n + (rows if i == hand else 0) for i, n in enumerate(self._dealt)]
        top = max(after)
        return sum(top - n for n in after) <= left

    def _give(self, hand: int, bundle: Bundle) -> None:
        self._dealt[hand] += bundle.rows
        self.hands[hand].append(bundle)

    def end(self) -> None:
        """No more bundles will come: deal what is left."""
        self.ended = True
        if not self._equal:
            return
        total = sum(self._dealt) + sum(b.rows for b in self._stock)
        target = total // self._n
        for hand in range(self._n):
            while self._dealt[hand] < target:
                bundle = self._stock.popleft()
                want = target - self._dealt[hand]
                if bundle.rows > want:
                    self._stock.appendleft(bundle.slice(want, bundle.rows - want))
                    bundle = bundle.slice(0, want)
                self._give(hand, bundle)
        self._stock.clear()
