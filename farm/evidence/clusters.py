"""Incidents that are one fault: the same signature first, then texts that are near each other.

`group` compares the texts of signatures (their words, weighted by how rare they are) and finds dense
groups with HDBSCAN (Campello, Moulavi and Sander, 2013; scikit-learn's implementation, loaded only here and only when
called). A group holds together: whoever is further from every other member than `NEAR` is on its own, however dense
the rest is.

`settle` keeps what is known: a group takes over the cluster that most of it is in already, so that a cluster is found
again when new incidents arrive; a cluster that a person named or muted is never emptied into another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

#: Most texts that are compared at once: the table of distances is square.
MAX_TEXTS = 2_000
#: Cosine distance up to which two texts may be one fault.
NEAR = 0.15

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]+|-?\d+")


def words(text: str) -> list[str]:
    """What is compared: identifiers, and their parts where people join words (`ggml_mul_mat`, `loadModel`)."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(word.lower())
        parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", word)]
        if len(parts) > 1:
            found.extend(parts)
    return found


def group(texts: Sequence[str], near: float = NEAR) -> list[int]:
    """A number per text, the same for texts of one group; -1: alone. Only the first `MAX_TEXTS` are grouped."""
    compared = texts[:MAX_TEXTS]
    alone = [-1] * len(texts)
    if len(compared) < 2 or not any(words(text) for text in compared):
        return alone
    import numpy as np
    from sklearn.cluster import HDBSCAN
    from sklearn.feature_extraction.text import TfidfVectorizer

    features = TfidfVectorizer(analyzer=words, sublinear_tf=True).fit_transform(compared)
    far = np.clip(1.0 - (features @ features.T).toarray(), 0.0, 1.0).astype(np.float64)
    np.fill_diagonal(far, 0.0)
    dense = HDBSCAN(
        min_cluster_size=2,
        min_samples=1,
        allow_single_cluster=True,
        metric="precomputed",
        copy=True,
    )
    labels = [int(label) for label in dense.fit_predict(far)]
    return [*_split(labels, far <= near), *alone[len(compared) :]]


def _split(labels: Sequence[int], near: object) -> list[int]:
    """Each group's parts that hold together, numbered anew."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    table = np.asarray(near)
    found = [-1] * len(labels)
    number = 0
    for label in sorted(set(labels) - {-1}):
        members = [index for index, of in enumerate(labels) if of == label]
        count, part = connected_components(csr_matrix(table[np.ix_(members, members)]), directed=False)
        for one in range(count):
            inside = [index for index, of in zip(members, part, strict=True) if of == one]
            if len(inside) > 1:
                for index in inside:
                    found[index] = number
                number += 1
    return found


def settle(
    keys: Sequence[str], labels: Sequence[int], clusters: Mapping[str, int], kept: Collection[int]
) -> dict[str, int]:
    """Signatures that move: key -> cluster. `clusters`: where each is now; `kept`: clusters that people named or muted.

    A group gathers in the kept cluster that holds most of its members, else in the one that does, the older of two
    alike; members of another kept cluster stay where they are.
    """
    moves: dict[str, int] = {}
    groups: dict[int, list[str]] = {}
    for key, label in zip(keys, labels, strict=True):
        if label >= 0:
            groups.setdefault(label, []).append(key)
    for members in groups.values():
        where = Counter(clusters[key] for key in members)
        home = max(where, key=lambda cluster: (cluster in kept, where[cluster], -cluster))
        moves |= {key: home for key in members if clusters[key] != home and clusters[key] not in kept}
    return moves
