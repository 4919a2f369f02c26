"""Forms: conversion between typed text and values of the domain. Pure: returns values and errors by field."""
