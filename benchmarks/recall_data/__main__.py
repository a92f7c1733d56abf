"""Print the data as JSON: ``python -m benchmarks.recall_data > file.json``."""

import json
import sys

from benchmarks.recall_data import generate

json.dump(generate(), sys.stdout, indent=1)
