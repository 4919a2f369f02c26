"""records.py SEARCHES LOADS: searches JSON with a regular expression, and parses it."""

import json
import re
import sys

RECORDS = [{"name": f"n{i}", "values": [i, i * 1.5], "tags": ["a", "b" * (i % 7)]} for i in range(3000)]
PATTERN = re.compile(r'"n\d*[13579]", "values": \[(\d+), (\d+\.\d+)')

text, total = json.dumps(RECORDS), 0
for _ in range(int(sys.argv[1])):
    total += len(PATTERN.findall(text))
for _ in range(int(sys.argv[2])):
    total += len(json.loads(text))
print(total)
