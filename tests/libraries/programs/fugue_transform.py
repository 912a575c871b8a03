"""Fugue: the same transformation on Ray and in pandas."""

import fugue.api as fa
import fugue_ray  # noqa: F401
import pandas as pd
import ray
from proof import ran

ray.init(num_cpus=2)
ROWS = pd.DataFrame({"key": [i % 7 for i in range(1_000)], "x": range(1_000)})


def first_rows(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(total=rows["x"].sum(), count=len(rows)).head(2)


def work(engine):
    done = fa.transform(
        ROWS,
        first_rows,
        schema="*,total:long,count:long",
        partition={"by": "key"},
        engine=engine,
        as_local=True,
    )
    return fa.as_pandas(done).sort_values(["key", "x"]).reset_index(drop=True)


there, here = work("ray"), work("native")
pd.testing.assert_frame_equal(there, here, check_dtype=False)
assert len(here) == 14
assert ran()
print("compared=1")
