"""Numbers and names as the sentences of the statistics write them."""

from dataclasses import dataclass

from heedful.evaluation.metrics import Metric


@dataclass(frozen=True)
class Words:
    """How one speaks of a metric on one set of examples."""

    metric: Metric
    where: str = "test"
    """The name of the set that judges."""

    @property
    def a_score(self) -> str:
        """ "an accuracy", "a log-loss"."""
        title = self.metric.title
        return f"{'an' if title[0] in 'aeiou' or title.startswith('F1') else 'a'} {title}"

    def examples(self, count: int) -> str:
        return f"{count:,} {self.where} example{'s' if count != 1 else ''}"

    def figure(self, value: float) -> str:
        """Three decimals; of what may be any size, three digits."""
        if None not in self.metric.bounds or 0.001 <= abs(value) < 1000 or value == 0:
            return f"{value:.3f}".replace("-", "−")
        return f"{value:.3g}".replace("-", "−")

    def higher(self, difference: float) -> str:
        """ "0.010 higher"; of a metric of which less is better, with what that means."""
        meaning = "" if self.metric.higher_is_better else " (worse)" if difference > 0 else " (better)"
        return f"{self.figure(abs(difference))} {'higher' if difference > 0 else 'lower'}{meaning}"

    def signed(self, value: float) -> str:
        return ("+" if value > 0 else "") + self.figure(value)

    def rough(self, value: float) -> str:
        """As much of a number as "about" allows."""
        return f"{rounded(value):g}" if value < 1e6 else f"{value:.2g}"


def rounded(value: float) -> float:
    """To two digits; 0.0523 is 0.052."""
    return float(f"{value:.2g}")


def p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def percent(level: float) -> str:
    """0.95 is "95 %", 0.9917 is "99.2 %"."""
    return f"{100 * level:.1f}".rstrip("0").rstrip(".") + " %"
