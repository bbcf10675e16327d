"""What tests are made of, shipped so that others can test their own parts: suites, fakes, sampling."""
