"""python -m isobit verify RUN"""

import sys

from isobit._verify import main

if __name__ == "__main__":
    sys.exit(main())
